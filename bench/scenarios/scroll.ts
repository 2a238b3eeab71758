import { existsSync } from 'node:fs';
import { type Browser, type CDPSession, chromium } from 'playwright-core';
import { sql } from '../../server/src/db/client.ts';
import { type Belfry, startBelfry } from '../support/belfry.ts';
import { CHROMIUM, FLAGS } from '../support/chromium.ts';
import { queueEmpty } from '../support/queue.ts';
import type { Scenario } from '../support/scenario.ts';
import { percentile } from '../support/statistics.ts';

const NOTIFICATIONS = 100_000;
const PX_PER_FRAME = 600;
// A trace is kept in memory until it ends.
const PARTS = 20;

/**
 * (scroll) `<belfry-inbox>` in Chromium, scrolled from the first of 100,000 notifications to the last: how
 * long the frames take, and what the page keeps in memory.
 */
export const measureScroll: Scenario = async (bench) => {
  if (!existsSync(CHROMIUM)) {
    console.log(`left out: ${CHROMIUM} is missing`);
    return;
  }
  const belfry = await startBelfry({ ...bench, settings: { DEMO: 'on' } });
  const browser = await chromium.launch({ executablePath: CHROMIUM, args: FLAGS });
  try {
    const count = bench.quick ? NOTIFICATIONS / 20 : NOTIFICATIONS;
    await fill(belfry, count);
    const page = await browser.newPage({ viewport: { width: 800, height: 900 } });
    await page.goto(`${belfry.address}/demo`);
    await page.evaluate(`(${SHOW})(${JSON.stringify(belfry.userJwt('scroll'))})`);
    await page.locator('.item').first().waitFor();
    const session = await page.context().newCDPSession(page);
    await session.send('Performance.enable');
    const heap = [await heapMb(session)];
    const before = await metrics(session);
    const frames: number[] = [];
    const tasksMs: number[] = [];
    for (let part = 1; part <= PARTS; part += 1) {
      const trace = await startTrace(browser);
      const wanted = (count * part) / PARTS;
      frames.push(...(await page.evaluate<number[]>(`(${SCROLL})(${wanted}, ${PX_PER_FRAME})`)));
      tasksMs.push(...(await trace.end()));
      if (part === PARTS / 2 || part === PARTS) heap.push(await heapMb(session));
    }
    const after = await metrics(session);
    const note = `${frames.length} frames of ${PX_PER_FRAME} px, ${count} notifications`;
    for (const percent of [50, 99, 100])
      bench.figure({
        name: percent === 100 ? 'longest frame' : `frame: p${percent}`,
        value: percentile(frames, percent),
        unit: 'ms',
        note,
      });
    bench.figure({
      name: 'frames over 50 ms',
      value: frames.filter((ms) => ms > 50).length,
      unit: '',
    });
    bench.figure({
      name: 'frames for which the page works more than 50 ms',
      value: tasksMs.filter((ms) => ms > 50).length,
      unit: '',
      aim: { value: 0, better: 'less' },
      note: `CPU time of its thread, by a trace; the most is ${percentile(tasksMs, 100).toFixed(0)} ms`,
    });
    for (const name of ['ScriptDuration', 'RecalcStyleDuration', 'LayoutDuration', 'TaskDuration'])
      bench.figure({
        name: `${name} per notification`,
        value: (((after.get(name) ?? 0) - (before.get(name) ?? 0)) * 1_000_000) / count,
        unit: 'µs',
      });
    for (const [index, when] of ['at the first', 'in the middle', 'at the last'].entries())
      bench.figure({ name: `JS heap ${when} notification`, value: heap[index] ?? 0, unit: 'MB' });
  } finally {
    await browser.close();
    await belfry.stop();
  }
};

/** Sends a notification to a user, and copies it. */
async function fill(belfry: Belfry, count: number): Promise<void> {
  const content = '<p>A text of <b>several</b> lines. '.repeat(4);
  const body = { title: 'One of many', content, recipients: [{ external_id: 'scroll' }] };
  const { status } = await belfry.call('POST', '/broadcasts', body);
  if (status !== 201) throw new Error(`the response to a broadcast was ${status}`);
  await queueEmpty(belfry);
  await belfry.db.query(
    sql(
      '',
      `insert into notifications (user_id, id, broadcast_id, sent_at)
      select n.user_id, ('01900000-0000-7000-8000-' || lpad(i::text, 12, '0'))::uuid, n.broadcast_id,
        now() - i * interval '1 minute'
      from notifications n
      join users u on u.id = n.user_id, generate_series(2, $1::int) i
      where u.external_id = 'scroll'`,
    ),
    [count],
  );
}

async function metrics(session: CDPSession): Promise<Map<string, number>> {
  const { metrics: all } = await session.send('Performance.getMetrics');
  return new Map(all.map(({ name, value }) => [name, value]));
}

async function heapMb(session: CDPSession): Promise<number> {
  await session.send('HeapProfiler.collectGarbage');
  return ((await metrics(session)).get('JSHeapUsedSize') ?? 0) / 1_000_000;
}

/** Starts a trace. `end` returns the CPU time of each task of a page's main thread, in milliseconds. */
async function startTrace(browser: Browser): Promise<{ end(): Promise<number[]> }> {
  const session = await browser.newBrowserCDPSession();
  await session.send('Tracing.start', {
    transferMode: 'ReturnAsStream',
    traceConfig: { includedCategories: ['toplevel'], excludedCategories: ['*'] },
  });
  return {
    async end() {
      const complete = new Promise<{ stream?: string }>((resolve) => {
        session.once('Tracing.tracingComplete', resolve);
      });
      await session.send('Tracing.end');
      const { stream = '' } = await complete;
      let text = '';
      for (let isRead = false; !isRead; ) {
        const { data, eof } = await session.send('IO.read', { handle: stream, size: 10_000_000 });
        text += data;
        isRead = eof;
      }
      await session.detach();
      return cpuOfTasks((JSON.parse(text) as { traceEvents: TraceEvent[] }).traceEvents);
    },
  };
}

/** An event of the trace, whose times are microseconds. */
interface TraceEvent {
  name: string;
  pid: number;
  tid: number;
  args?: { name?: string };
  /** CPU time. */
  tdur?: number;
}

function cpuOfTasks(events: readonly TraceEvent[]): number[] {
  const threadOf = ({ pid, tid }: TraceEvent) => `${pid} ${tid}`;
  const main = new Set(
    events
      .filter(({ name, args }) => name === 'thread_name' && args?.name === 'CrRendererMain')
      .map(threadOf),
  );
  const tasks = events.filter((event) => event.name.endsWith('RunTask') && main.has(threadOf(event)));
  if (tasks.length === 0) throw new Error('the trace has no tasks of the page');
  return tasks.map(({ tdur = 0 }) => tdur / 1_000);
}

// In the page of the demo: shows one inbox and nothing else.
const SHOW = `(token) => {
  const inbox = document.createElement('belfry-inbox');
  Object.assign(inbox, { baseUrl: 'v2', token, mode: 'page' });
  document.body.replaceChildren(inbox);
}`;

// In the page: scrolls until so many notifications were loaded. Returns the time of each frame.
const SCROLL = `async (wanted, px) => {
  const { inbox, shadowRoot } = document.querySelector('belfry-inbox');
  const scroller = shadowRoot.querySelector('.scroller');
  const loaded = () => inbox.list().getSnapshot().pages.reduce((sum, page) => sum + page.size, 0);
  const next = () => new Promise((resolve) => requestAnimationFrame(resolve));
  const frames = [];
  let last = await next();
  while (loaded() < wanted) {
    scroller.scrollTop += px;
    const now = await next();
    frames.push(now - last);
    last = now;
  }
  return frames;
}`;

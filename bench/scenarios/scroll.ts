import { existsSync } from 'node:fs';
import { type CDPSession, chromium } from 'playwright-core';
import { sql } from '../../server/src/db/client.ts';
import { type Belfry, startBelfry } from '../support/belfry.ts';
import { CHROMIUM, FLAGS } from '../support/chromium.ts';
import { queueEmpty } from '../support/queue.ts';
import type { Scenario } from '../support/scenario.ts';
import { percentile } from '../support/statistics.ts';

const NOTIFICATIONS = 100_000;
const PX_PER_FRAME = 600;

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
    // In CPU time: on a busy machine, the clock also counts the time that the page waits.
    await session.send('Performance.enable', { timeDomain: 'threadTicks' });
    const heap = [await heapMb(session)];
    const before = await metrics(session);
    const frames: number[] = [];
    const work: number[] = [];
    for (const share of [0.5, 1]) {
      const scrolled = page.evaluate<number[]>(`(${SCROLL})(${count * share}, ${PX_PER_FRAME})`);
      work.push(...(await workDuring(session, scrolled)));
      frames.push(...(await scrolled));
      heap.push(await heapMb(session));
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
      name: 'longest work of the page at a time, in CPU time of its thread',
      value: percentile(work, 100),
      unit: 'ms',
      aim: { value: 50, better: 'less' },
      note: `${work.length} readings, p99 ${percentile(work, 99).toFixed(0)} ms`,
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

/**
 * Reads the CPU time of the main thread again and again, and returns what it used between two readings, in
 * milliseconds. The thread responds between two tasks, so no task takes longer than the longest.
 */
async function workDuring(session: CDPSession, scrolled: Promise<unknown>): Promise<number[]> {
  let isOver = false;
  const over = scrolled.finally(() => {
    isOver = true;
  });
  over.catch(() => {}); // the caller waits for it, too
  const work: number[] = [];
  let last = (await metrics(session)).get('TaskDuration') ?? 0;
  while (!isOver) {
    const now = (await metrics(session)).get('TaskDuration') ?? 0;
    work.push((now - last) * 1_000);
    last = now;
  }
  return work;
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

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
    await session.send('Performance.enable');
    const heap = [await heapMb(session)];
    const before = await metrics(session);
    const frames: number[] = [];
    const work: Work[] = [];
    for (const share of [0.5, 1]) {
      const part = await page.evaluate<Scrolled>(`(${SCROLL})(${count * share}, ${PX_PER_FRAME})`);
      frames.push(...part.frames);
      work.push(...part.work);
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
    const [longest = { ms: 0, scriptMs: 0, layoutMs: 0 }] = work.toSorted((a, b) => b.ms - a.ms);
    const [ms, scriptMs, layoutMs] = [longest.ms, longest.scriptMs, longest.layoutMs].map(Math.round);
    bench.figure({
      name: 'frames with more than 50 ms of work of the page',
      value: work.length,
      unit: '',
      aim: { value: 0, better: 'less' },
      note: `the longest: ${ms} ms, of which ${scriptMs} ms scripts, ${layoutMs} ms styles and layout`,
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

interface Scrolled {
  frames: number[];
  work: Work[];
}

/** What the main thread did in a frame: scripts, styles and layout. */
interface Work {
  ms: number;
  scriptMs: number;
  layoutMs: number;
}

// In the page of the demo: shows one inbox and nothing else.
const SHOW = `(token) => {
  const inbox = document.createElement('belfry-inbox');
  Object.assign(inbox, { baseUrl: 'v2', token, mode: 'page' });
  document.body.replaceChildren(inbox);
}`;

// In the page: scrolls until so many notifications were loaded. Returns the time of each frame, and what the
// main thread did in frames that kept it busy for more than 50 ms.
const SCROLL = `async (wanted, px) => {
  const { inbox, shadowRoot } = document.querySelector('belfry-inbox');
  const scroller = shadowRoot.querySelector('.scroller');
  const loaded = () => inbox.list().getSnapshot().pages.reduce((sum, page) => sum + page.size, 0);
  const next = () => new Promise((resolve) => requestAnimationFrame(resolve));
  const frames = [];
  const work = [];
  const note = (entries) => {
    for (const { startTime, duration, renderStart, styleAndLayoutStart, scripts } of entries)
      work.push({
        ms: duration,
        scriptMs: scripts.reduce((sum, script) => sum + script.duration, 0),
        layoutMs: styleAndLayoutStart > 0 ? startTime + duration - styleAndLayoutStart : 0,
      });
  };
  const observer = new PerformanceObserver((list) => note(list.getEntries()));
  observer.observe({ type: 'long-animation-frame' });
  let last = await next();
  while (loaded() < wanted) {
    scroller.scrollTop += px;
    const now = await next();
    frames.push(now - last);
    last = now;
  }
  note(observer.takeRecords());
  observer.disconnect();
  return { frames, work };
}`;

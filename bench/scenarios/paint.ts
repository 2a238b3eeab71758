import { existsSync } from 'node:fs';
import { chromium } from 'playwright-core';
import { startBelfry } from '../support/belfry.ts';
import { CHROMIUM, FLAGS } from '../support/chromium.ts';
import type { Scenario } from '../support/scenario.ts';
import { percentile } from '../support/statistics.ts';

// The page and the server are idle when the next broadcast is sent: its inboxes mark what they show as seen,
// and read their counts.
const PAUSE_MS = 300;

interface Painted {
  /** When the frame of the stream arrived in the page. */
  frameMs: number;
  /** When the frame was painted that shows the notification. */
  paintMs: number;
}

/**
 * (paint) From `POST /broadcasts` to the frame in which an open inbox shows the notification, in Chromium, on
 * an idle server.
 */
export const measurePaint: Scenario = async (bench) => {
  if (!existsSync(CHROMIUM)) {
    console.log(`left out: ${CHROMIUM} is missing`);
    return;
  }
  const belfry = await startBelfry({ ...bench, settings: { DEMO: 'on' } });
  const browser = await chromium.launch({ executablePath: CHROMIUM, args: FLAGS });
  try {
    const page = await browser.newPage();
    await page.addInitScript(WATCH_FRAMES);
    await page.goto(`${belfry.address}/demo`);
    await page.locator('belfry-inbox').first().waitFor();
    const token = await page.evaluate<string>(
      "fetch('/demo/session', { method: 'POST' }).then(async (r) => (await r.json()).project_jwt)",
    );
    const paints = (count: number) =>
      page.evaluate<Painted[]>(`(${MEASURE})(${JSON.stringify(token)}, ${count}, ${PAUSE_MS})`);
    await paints(bench.quick ? 5 : 30); // cold code
    const times = await paints(bench.quick ? 20 : 100);
    for (const percent of [50, 99]) {
      const of = (member: keyof Painted) =>
        percentile(
          times.map((one) => one[member]),
          percent,
        );
      bench.figure({
        name: `request → paint: p${percent}`,
        value: of('paintMs'),
        unit: 'ms',
        note: `to the frame of the stream: ${of('frameMs').toFixed(1)} ms; 60 frames/s take 16.7 ms each`,
      });
    }
  } finally {
    await browser.close();
    await belfry.stop();
  }
};

// In the page: notes when each message of a stream arrives, before the inbox gets it.
const WATCH_FRAMES = `{
  const Socket = WebSocket;
  window.messages = [];
  window.WebSocket = class extends Socket {
    constructor(...given) {
      super(...given);
      this.addEventListener('message', ({ data }) => window.messages.push({ atMs: performance.now(), data }));
    }
  };
}`;

// In the page: sends broadcasts one after the other. A frame is painted after its callbacks, so the time is
// that of a task after it.
const MEASURE = `async (token, count, pauseMs) => {
  const { shadowRoot } = document.querySelector('belfry-inbox');
  const times = [];
  for (let number = 0; number < count; number += 1) {
    const title = 'Paint ' + performance.now();
    window.messages.length = 0;
    const painted = new Promise((resolve) => {
      const observer = new MutationObserver(() => {
        if (!shadowRoot.querySelector('.item')?.textContent.includes(title)) return;
        observer.disconnect();
        requestAnimationFrame(() => {
          const { port1, port2 } = new MessageChannel();
          port1.onmessage = () => resolve(performance.now());
          port2.postMessage(undefined);
        });
      });
      observer.observe(shadowRoot, { subtree: true, childList: true });
    });
    const sentMs = performance.now();
    const response = await fetch('/v2/broadcasts', {
      method: 'POST',
      headers: { authorization: 'Bearer ' + token, 'content-type': 'application/json' },
      body: JSON.stringify({ title, recipients: [{ external_id: 'ada' }] }),
    });
    if (response.status !== 201) throw new Error('the response to a broadcast was ' + response.status);
    const paintMs = (await painted) - sentMs;
    const frame = window.messages.find(({ data }) => data.includes(title));
    times.push({ frameMs: frame.atMs - sentMs, paintMs });
    await new Promise((resolve) => setTimeout(resolve, pauseMs));
  }
  return times;
}`;

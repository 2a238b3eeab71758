import { existsSync } from 'node:fs';
import { chromium } from 'playwright-core';
import { startBelfry } from '../support/belfry.ts';
import { CHROMIUM, FLAGS } from '../support/chromium.ts';
import type { Scenario } from '../support/scenario.ts';
import { percentile } from '../support/statistics.ts';

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
    await page.goto(`${belfry.address}/demo`);
    await page.locator('belfry-inbox').first().waitFor();
    const token = await page.evaluate<string>(
      "fetch('/demo/session', { method: 'POST' }).then(async (r) => (await r.json()).project_jwt)",
    );
    const paints = (count: number) =>
      page.evaluate<number[]>(`(${MEASURE})(${JSON.stringify(token)}, ${count})`);
    await paints(bench.quick ? 5 : 30); // cold code
    const times = await paints(bench.quick ? 20 : 300);
    for (const percent of [50, 99])
      bench.figure({
        name: `request → paint: p${percent}`,
        value: percentile(times, percent),
        unit: 'ms',
        note: 'at 60 frames/s a frame takes 16.7 ms',
      });
  } finally {
    await browser.close();
    await belfry.stop();
  }
};

// In the page: sends broadcasts one after the other. The callback of a frame runs before it is painted, so
// the time is that of a task after it.
const MEASURE = `async (token, count) => {
  const inbox = document.querySelector('belfry-inbox');
  const times = [];
  for (let number = 0; number < count; number += 1) {
    const title = 'Paint ' + performance.now();
    const shown = new Promise((resolve) => {
      const look = () => {
        if (!inbox.shadowRoot.textContent.includes(title)) return requestAnimationFrame(look);
        const { port1, port2 } = new MessageChannel();
        port1.onmessage = () => resolve(performance.now());
        port2.postMessage(undefined);
      };
      requestAnimationFrame(look);
    });
    const sentMs = performance.now();
    const response = await fetch('/v2/broadcasts', {
      method: 'POST',
      headers: { authorization: 'Bearer ' + token, 'content-type': 'application/json' },
      body: JSON.stringify({ title, recipients: [{ external_id: 'ada' }] }),
    });
    if (response.status !== 201) throw new Error('the response to a broadcast was ' + response.status);
    times.push((await shown) - sentMs);
    await new Promise((resolve) => setTimeout(resolve, 30 + Math.random() * 20));
  }
  return times;
}`;

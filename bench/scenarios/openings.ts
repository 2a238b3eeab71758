import { setTimeout as delay } from 'node:timers/promises';
import type { Openings } from '../processes/inboxes.ts';
import { startBelfry } from '../support/belfry.ts';
import { cpuOf, memoryOf, used } from '../support/processes.ts';
import { queueEmpty } from '../support/queue.ts';
import type { Scenario } from '../support/scenario.ts';
import { percentile } from '../support/statistics.ts';
import { startTask } from '../support/task.ts';

const INBOXES = 10_000;
const NOTIFICATIONS = 20;
const RECIPIENTS = 1_000;
const AT_ONCE = 500;
const SETTLE_MS = 3_000;

/**
 * (openings) Ten thousand users open their inboxes at the same moment: stream, list, counts, theme and
 * preferences, by one request. Each has 20 notifications. First 500 open at any time, then half as many users
 * all at once.
 */
export const measureOpenings: Scenario = async (bench) => {
  const belfry = await startBelfry(bench);
  const [browsers, more] = [startTask('inboxes.ts'), startTask('inboxes.ts')];
  try {
    const inboxes = bench.quick ? INBOXES / 10 : INBOXES;
    const users = Array.from({ length: 1.5 * inboxes + RECIPIENTS }, (_, index) => `open-${index}`);
    for (let from = 0; from < users.length; from += RECIPIENTS) {
      const recipients = users.slice(from, from + RECIPIENTS).map((id) => ({ external_id: id }));
      for (let number = 0; number < NOTIFICATIONS; number += 1) {
        const body = { title: `Notification ${number}`, content: 'It <b>arrives</b> tomorrow.', recipients };
        const { status } = await belfry.call('POST', '/broadcasts', body);
        if (status !== 201) throw new Error(`the response to a broadcast was ${status}`);
      }
    }
    await queueEmpty(belfry);
    const jwts = users.map((id) => belfry.userJwt(id));
    const { address } = belfry;
    // Cold code, and pools that grow once.
    await browsers.request<Openings>({ address, jwts: jwts.splice(0, RECIPIENTS), atOnce: AT_ONCE });
    for (const [name, task, count, atOnce] of [
      ['', browsers, inboxes, AT_ONCE],
      [', all at once', more, inboxes / 2, inboxes / 2],
    ] as const) {
      // The file handles of this machine are too few for both.
      if (task === more) browsers.stop();
      await delay(SETTLE_MS);
      const before = { memory: memoryOf(belfry.pid), cpu: cpuOf(belfry.pid) };
      const request = { address, jwts: jwts.splice(0, count), atOnce };
      const { openMs, retries, failures, seconds, cpuMs } = await task.request<Openings>(request);
      const { nodeCpuMs, postgresCpuMs } = used(before.cpu, cpuOf(belfry.pid));
      await delay(SETTLE_MS);
      const { nodeBytes } = memoryOf(belfry.pid);
      const each = (ms: number) => ((ms * 1_000) / count).toFixed(0);
      bench.figure({
        name: `inboxes opened${name}`,
        value: count / seconds,
        unit: '/s',
        note:
          `µs of CPU for each: Node ${each(nodeCpuMs)}, PostgreSQL ${each(postgresCpuMs)}, ` +
          `browsers ${each(cpuMs)}`,
      });
      for (const percent of [50, 99]) {
        bench.figure({
          name: `an inbox opens${name}: p${percent}`,
          value: percentile(openMs, percent),
          unit: 'ms',
        });
      }
      bench.figure({
        name: `inboxes that did not open${name}`,
        value: count - openMs.length,
        unit: `of ${count}`,
        aim: { value: 0, better: 'less' },
        note: `${JSON.stringify(failures)}, ${retries} retries after a 503`,
      });
      if (task === browsers)
        bench.figure({
          name: `memory of each${name}`,
          value: (nodeBytes - before.memory.nodeBytes) / count / 1_000,
          unit: 'kB',
        });
    }
  } finally {
    browsers.stop();
    more.stop();
    await belfry.stop();
  }
};

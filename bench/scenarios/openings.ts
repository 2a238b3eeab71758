import type { Openings } from '../processes/inboxes.ts';
import { startBelfry } from '../support/belfry.ts';
import { queueEmpty } from '../support/queue.ts';
import type { Scenario } from '../support/scenario.ts';
import { percentile } from '../support/statistics.ts';
import { runTask } from '../support/task.ts';

const INBOXES = 10_000;
const NOTIFICATIONS = 20;
const RECIPIENTS = 1_000;
const AT_ONCE = 500;

/**
 * (openings) Ten thousand users open their inboxes at the same moment: list, counts, theme and stream. Each
 * has 20 notifications.
 */
export const measureOpenings: Scenario = async (bench) => {
  const belfry = await startBelfry(bench);
  try {
    const inboxes = bench.quick ? INBOXES / 10 : INBOXES;
    const users = Array.from({ length: inboxes }, (_, index) => `open-${index}`);
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
    const { openMs, requestMs, seconds } = await runTask<Openings>('inboxes.ts', {
      address: belfry.address,
      jwts,
      atOnce: AT_ONCE,
    });
    const note = `${inboxes} inboxes, ${AT_ONCE} opening at any time`;
    bench.figure({ name: 'inboxes opened', value: inboxes / seconds, unit: '/s', note });
    bench.figure({ name: 'requests', value: (requestMs.length + inboxes) / seconds, unit: '/s' });
    for (const percent of [50, 99]) {
      bench.figure({
        name: `an inbox opens: p${percent}`,
        value: percentile(openMs, percent),
        unit: 'ms',
        note: `a request: ${percentile(requestMs, percent).toFixed(0)} ms`,
      });
    }
  } finally {
    await belfry.stop();
  }
};

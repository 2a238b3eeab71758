import { rm } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type BelfryProcess, startBelfry, withDatabaseOf } from '../support/belfry-process.ts';
import { newDataDir } from '../support/data-dir.ts';
import { messageIdOf, saveSmtp, settled } from '../support/faults.ts';
import { newSeed, randomFrom } from '../support/random.ts';
import { rounds } from '../support/rounds.ts';
import { rowsOf } from '../support/rows.ts';
import { type Caller, until } from '../support/service.ts';
import { type SmtpStandIn, startSmtpStandIn } from '../support/smtp-stand-in.ts';

const ROUNDS = rounds(2, 12);
const SUBSCRIBERS = 5_000;
// One of this many users has an address.
const MAILED = 10;

const seed = newSeed();
const random = randomFrom(seed);

let dataDir = '';
let smtp: SmtpStandIn;
let belfry: BelfryProcess;

beforeAll(async () => {
  dataDir = await newDataDir('cancel');
  smtp = await startSmtpStandIn();
});
afterAll(async () => {
  await belfry?.killTree();
  await smtp.stop();
  await rm(dataDir, { recursive: true, force: true });
});

const call: Caller = (...request) => belfry.call(...request);

async function subscribers(): Promise<void> {
  await withDatabaseOf(dataDir, ({ db }) =>
    rowsOf(
      db,
      `with made as (
        insert into users (id, project_id, external_id, email, created_at, updated_at)
        select gen_random_uuid(), p.id, 'user-' || n,
               case when n % $2 = 0 then 'user-' || n || '@example.com' end,
               now(), now()
        from projects p, generate_series(1, $1::int) n
        returning id, project_id
      )
      insert into subscriptions (user_id, topic, id, project_id, categories)
      select id, 'news', gen_random_uuid(), project_id, '{"*": {"status": "subscribed"}}' from made`,
      [SUBSCRIBERS, MAILED],
    ),
  );
}

test.runIf(process.platform === 'linux')(
  `a cancelled broadcast is counted exactly despite ${ROUNDS} kills (FAULT_SEED=${seed})`,
  async () => {
    belfry = await startBelfry(dataDir);
    await saveSmtp({ call }, smtp);
    await subscribers();
    const sent: { id: string; isKnownCancelled: boolean }[] = [];
    const lines: string[] = [];
    let interrupted = 0;
    for (let round = 1; round <= ROUNDS; round += 1) {
      const { body } = await call('POST', '/broadcasts', {
        title: `Round ${round}`,
        topic: 'news',
        recipients: [{ topic: { subscribers: true } }],
      });
      const reached = Math.floor(random() * (SUBSCRIBERS / 2));
      await until(
        () => call('GET', `/broadcasts/${body.id}`),
        (response) => response.body.status.summary.total >= reached,
        { everyMs: 2 },
      );
      const cancel = () => call('POST', `/broadcasts/${body.id}/cancel`);
      const cancelling = cancel().catch(() => undefined);
      // Every other server is killed around the commit of the cancellation.
      const response = round % 2 === 1 ? await cancelling : undefined;
      if (round % 2 === 1) expect(response?.status).toBe(200);
      await delay(random() * 20);
      await belfry.killTree();
      await cancelling;
      belfry = await startBelfry(dataDir);
      const { status, body: after } = await cancel();
      expect(status).toBe(200);
      const { total, pending } = after.status.summary;
      if (response !== undefined) {
        expect(after.cancelled_at).toBe(response.body.cancelled_at);
        expect(total).toBe(response.body.status.summary.total);
      }
      sent.push({ id: body.id, isKnownCancelled: response !== undefined });
      if (pending > 0) interrupted += 1;
      lines.push(`round ${round}: cancelled with ${total}, ready again with ${pending} pending`);
    }
    await settled(belfry);
    const statuses = await Promise.all(
      sent.map(async ({ id }) => (await call('GET', `/broadcasts/${id}`)).body.status),
    );
    belfry.signal('SIGTERM');
    expect(await belfry.ended).toBe(0);
    console.log([`seed ${seed}`, ...lines].join('\n'));
    expect(interrupted).toBeGreaterThan(0);

    const received = smtp.received.map(messageIdOf);
    const repeated = new Set(received.filter((id, index) => received.indexOf(id) < index));
    await withDatabaseOf(dataDir, async ({ db }) => {
      for (const [index, { id, isKnownCancelled }] of sent.entries()) {
        const found = await rowsOf<{
          id: string;
          mailed: boolean;
          state: string | null;
          code: string | null;
        }>(
          db,
          `select n.id, u.email is not null as mailed, d.state, d.code
          from notifications n
          join users u on u.id = n.user_id
          left join deliveries d on d.user_id = n.user_id and d.notification_id = n.id and d.channel = 'email'
          where n.broadcast_id = $1`,
          [id],
        );
        expect(statuses[index]).toEqual({
          status: 'processed',
          summary: { total: found.length, failures: 0, pending: 0 },
          errors: null,
        });
        // Each delivery has one end, and each that was sent has arrived. Those that were in flight when the
        // server was killed may have arrived, too.
        for (const { id: notification, mailed, state, code } of found) {
          if (!mailed) expect(state).toBeNull();
          else if (state === 'sent') expect(received).toContain(notification);
          else expect([state, code]).toEqual(['skipped', 'cancelled']);
        }
        // Nothing is sent once more: it is skipped when its job runs again.
        if (isKnownCancelled) expect(found.filter((row) => repeated.has(row.id))).toEqual([]);
      }
    });
  },
);

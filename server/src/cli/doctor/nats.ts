import type { Config } from '../../config.ts';
import type { Database } from '../../db/client.ts';
import { natsSubject, natsTransport } from '../../domain/ground/bus/nats.ts';
import { reasonOf } from '../reason-of.ts';
import { type Finding, ok, problem } from './finding.ts';

const CHECK = 'nats';

/** Checks that the servers of NATS_URL carry messages of this database, or without one that they respond. */
export async function checkNats({ NATS_URL }: Config, db: Database | undefined): Promise<Finding[]> {
  if (NATS_URL === undefined) return [];
  const where = NATS_URL.servers.join(', ');
  try {
    const subject = db === undefined ? 'belfry.doctor' : await natsSubject(db);
    const channel = await natsTransport({ ...NATS_URL, subject }).open(() => {});
    channel.drop();
    await channel.ended;
    return [ok(CHECK, `${where}: messages between nodes pass`)];
  } catch (error) {
    const advice =
      'correct NATS_URL or start the server; until then inboxes show notifications of other nodes late';
    return [problem(CHECK, `${where}: ${reasonOf(error)}`, advice)];
  }
}

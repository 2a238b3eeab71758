import type { DeliveryRecord } from '../../../contract/delivery.ts';
import { type Queryable, sql } from '../../../db/client.ts';
import { delivering, wireNameOf } from '../../../providers/index.ts';
import { IS_CURRENT } from '../../setup/integrations/pauses.ts';

// The longest that other messages wait while one probes whether an integration works again (see
// circuit-breaker.ts).
const AFTER_PAUSE_MS = 15_000;

/**
 * Returns a function that adds to a scheduled delivery why it waits, if it becomes due while the integrations
 * of its channel are paused. Taken from what is known of the integrations, so nothing is written for each
 * delivery when an integration is paused.
 */
export async function explainWaiting({
  db,
  brand,
  projectId,
}: {
  db: Queryable;
  brand: string;
  projectId: string;
}): Promise<(delivery: DeliveryRecord) => DeliveryRecord> {
  const rows = await db.query<Row>(selectIntegrations, [projectId]);
  const byChannel = Map.groupBy(
    rows,
    ({ provider }): string | undefined => delivering.get(provider)?.channel,
  );
  return (one) => {
    if (one.state !== 'scheduled') return one;
    const pause = pauseOf(one.channel, byChannel.get(one.channel) ?? []);
    const dueMs = one.due_at === null ? 0 : Date.parse(one.due_at);
    if (pause === undefined || dueMs > pause.until.getTime() + AFTER_PAUSE_MS) return one;
    const { id, provider, until, reason } = pause;
    const name = wireNameOf(provider, brand);
    return {
      ...one,
      code: 'integration_paused',
      reason: `the integration ${name} is paused: ${reason}`,
      provider: name,
      integration_id: id,
      due_at: new Date(Math.max(dueMs, until.getTime())).toISOString(),
    };
  };
}

/**
 * Which integration of a channel its deliveries wait for: any of one whose targets name their integration,
 * else only when all are paused.
 */
function pauseOf(channel: DeliveryRecord['channel'], rows: readonly Row[]): Paused | undefined {
  const paused = rows.filter((row): row is Paused => row.until !== null);
  if (!OWN_TARGETS.has(channel) && paused.length < rows.length) return undefined;
  return paused.toSorted((a, b) => a.until.getTime() - b.until.getTime())[0];
}

const OWN_TARGETS: ReadonlySet<string> = new Set(
  [...delivering.values()].filter(({ tokens }) => tokens !== undefined).map(({ channel }) => channel),
);

interface Row {
  id: string;
  provider: string;
  until: Date | null;
  reason: string | null;
}
type Paused = Row & { until: Date; reason: string };

// Index integrations_of_project; primary key (project_id, integration_id, party) of the pauses. The
// integrations are read only if there is a pause of any.
const selectIntegrations = sql(
  'integrations_with_pauses',
  `select i.id, i.provider, p.until, p.reason
  from integrations i
  left join integration_pauses p on p.project_id = i.project_id and p.integration_id = i.id and ${IS_CURRENT}
  where i.project_id = $1 and exists (select from integration_pauses where project_id = $1)`,
);

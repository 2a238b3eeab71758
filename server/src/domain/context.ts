import type { Config } from '../config.ts';
import type { Database } from '../db/client.ts';
import type { Clock } from '../lib/clock.ts';
import type { EgressGuard } from '../lib/egress.ts';
import type { Logger } from '../lib/log.ts';
import type { Sealer } from '../lib/seal.ts';
import type { Transport } from '../providers/transport.ts';
import type { FreshRecipients } from './broadcasts/fresh-recipients.ts';
import type { CategoryCache } from './categories/of-project.ts';
import type { IntegrationCache } from './integrations/of-project.ts';
import type { BroadcastContents } from './notifications/contents.ts';
import type { ProjectCache } from './projects/cache.ts';
import type { Bus } from './realtime/messages.ts';
import type { AddressKeys } from './suppressions/address-keys.ts';
import type { Identities } from './users/identities.ts';

/**
 * What the domain works with, made once in app.ts. Functions take the parts they need:
 * `({ db, clock }, input)`.
 */
export interface Context {
  readonly config: Config;
  readonly db: Database;
  readonly clock: Clock;
  readonly log: Logger;
  readonly sealer: Sealer;
  readonly egress: EgressGuard;
  readonly transport: Transport;
  readonly bus: Bus;
  readonly identities: Identities;
  readonly projects: ProjectCache;
  readonly integrations: IntegrationCache;
  readonly categories: CategoryCache;
  readonly contents: BroadcastContents;
  readonly addressKeys: AddressKeys;
  readonly fresh: FreshRecipients;
}

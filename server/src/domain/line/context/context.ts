import type { Config } from '../../../config.ts';
import type { Database } from '../../../db/client.ts';
import type { Clock } from '../../../lib/clock.ts';
import type { EgressGuard } from '../../../lib/egress.ts';
import type { Logger } from '../../../lib/log.ts';
import type { Sealer } from '../../../lib/seal.ts';
import type { Transport } from '../../../providers/shared/transport.ts';
import type { LostResponses } from '../../ground/bus/lost-responses.ts';
import type { Bus } from '../../ground/bus/messages.ts';
import type { Identities } from '../../ground/identities/identities.ts';
import type { AddressKeys } from '../../ground/suppressions/address-keys.ts';
import type { CategoryCache } from '../../setup/categories/cache.ts';
import type { IntegrationCache } from '../../setup/integrations/cache.ts';
import type { ProjectCache } from '../../setup/projects/cache.ts';
import type { CancelledBroadcasts } from './cancelled-broadcasts.ts';
import type { RecentBroadcasts } from './recent-broadcasts.ts';

/** What the line of a broadcast works with. Functions take the parts they need: `({ db, clock }, input)`. */
export interface LineContext {
  readonly config: Config;
  readonly db: Database;
  readonly clock: Clock;
  readonly log: Logger;
  readonly sealer: Sealer;
  readonly egress: EgressGuard;
  readonly transport: Transport;
  readonly bus: Bus;
  readonly lostResponses: LostResponses;
  readonly identities: Identities;
  readonly addressKeys: AddressKeys;
  readonly projects: ProjectCache;
  readonly integrations: IntegrationCache;
  readonly categories: CategoryCache;
  readonly recent: RecentBroadcasts;
  readonly cancelled: CancelledBroadcasts;
}

import { GraphQLInt } from 'graphql';
import { type Static, Type } from 'typebox';
import { BroadcastListQuery, BroadcastSchema, NewBroadcastSchema } from '../../contract/broadcast.ts';
import { described, Id } from '../../contract/common.ts';
import { DeliveryListQuery, DeliveryRecord, ReplayDeliveries } from '../../contract/delivery.ts';
import { replayDeliveries, replayProblems } from '../../domain/after/replay/replay.ts';
import { REPLAY_KINDS } from '../../domain/after/replay/replay-failed.ts';
import { problemsBeyondSchema } from '../../domain/line/accept/prepare.ts';
import { sendBroadcast } from '../../domain/line/accept/send-broadcast.ts';
import { cancelBroadcast } from '../../domain/line/broadcasts/cancel.ts';
import { countBroadcasts, getBroadcast, listBroadcasts } from '../../domain/line/broadcasts/get.ts';
import { listDeliveries } from '../../domain/line/ledger/list.ts';
import { ClientError } from '../../errors.ts';
import { NEWEST } from '../../lib/cursor.ts';
import { readJson } from '../../lib/exact-numbers.ts';
import { isId } from '../../lib/ids.ts';
import type { JsonText } from '../../lib/json-text.ts';
import { found } from '../found.ts';
import { type Connection, connect, connectionType, pageArgs, readPageArgs } from './connections.ts';
import { argumentReader, type Builder, nonNull } from './fields.ts';
import type { Scope } from './scope.ts';

const ById = Type.Object({ id: described(Id, 'The id of the broadcast.') });
const { state, channel } = DeliveryListQuery.properties;
const DeliveryArgs = Type.Object({ ...pageArgs, state, channel });
const DELIVERY_CURSOR = /^((\d{1,9}|failed)-)?[0-9a-f-]{36}\.[a-z_]{1,20}$/i;

// Broadcasts are parsed and their members are resolved, unlike in REST: 1000 recipients have 50 kB and more.
const MAX_PAGE_BYTES = 256 * 1024;

/** Adds the broadcasts of a project with their deliveries. */
export function broadcastFields({ types, queries, mutations }: Builder): void {
  const type = types.object(BroadcastSchema);
  const present = (json: JsonText) => types.present(BroadcastSchema, readJson(json.toString()));
  const deliveries = connectionType(types.object(DeliveryRecord), {
    type: GraphQLInt,
    description: 'The exact number of deliveries in the whole list; null with a `state` other than `FAILED`.',
  });
  const readArgs = argumentReader(DeliveryArgs);
  types.extend('Broadcast', () => ({
    deliveries: {
      type: nonNull(deliveries),
      description: 'Each notification of the broadcast once for every channel that was set up.',
      args: types.arguments('deliveries', DeliveryArgs),
      resolve: (broadcast, given, scope) => {
        const { id } = broadcast as { id: string };
        return deliveriesOf(scope, id, readArgs(given), (delivery) =>
          types.present(DeliveryRecord, delivery),
        );
      },
    },
  }));

  queries.ofProject('broadcasts', {
    type: nonNull(connectionType(type)),
    description: 'The broadcasts of the project, newest first. A page with long ones may end early.',
    args: Type.Object({ ...pageArgs, status: BroadcastListQuery.properties.status }),
    async resolve({ context: { db }, project }, args) {
      const scheduled = args.status === 'scheduled';
      const page = readPageArgs(args, isId);
      return connect({
        page: () => listBroadcasts(db, project.id, page, { scheduled, maxBytes: MAX_PAGE_BYTES }),
        edge(json) {
          const node = present(json) as { id: string };
          return { cursor: node.id, node };
        },
        count: () => countBroadcasts(db, project.id, { scheduled }),
      });
    },
  });

  queries.ofProject('broadcast', {
    type,
    description: 'A broadcast of the project; null if there is none with this id.',
    args: ById,
    async resolve({ context, project }, { id }) {
      const json = await getBroadcast(context.db, project.id, id);
      return json && present(json);
    },
  });

  mutations.ofProject('createBroadcast', {
    type: nonNull(type),
    description:
      'Sends a broadcast to up to 1000 recipients. Returns as soon as it is stored; delivery continues in ' +
      'the background.',
    args: Type.Object({ input: NewBroadcastSchema }),
    alsoWrong: ({ context }, input) => problemsBeyondSchema(input, context.clock.now()),
    async resolve({ context, project }, { input }) {
      const raw = { json: undefined, recipients: undefined, members: undefined }; // the schema is checked
      return present((await sendBroadcast(context, project, input, { raw })).json);
    },
  });

  mutations.ofProject('cancelBroadcast', {
    type: nonNull(type),
    description: 'Cancels a broadcast: what is not sent yet is skipped. Has no effect once it has ended.',
    args: ById,
    async resolve({ context, project }, { id }) {
      if (!(await cancelBroadcast(context, project.id, id.toLowerCase()))) throw new ClientError('not_found');
      context.wake('cancel');
      const json = found(await getBroadcast(context.db, project.id, id)); // expired meanwhile
      return present(json);
    },
  });

  mutations.ofProject('replayBroadcastDeliveries', {
    type: nonNull(GraphQLInt),
    description: 'Starts failed deliveries from the beginning. Returns how many.',
    args: Type.Object({ ...ById.properties, input: ReplayDeliveries }),
    alsoWrong: (_scope, input) => replayProblems(input),
    async resolve({ context, project }, { id, input }) {
      const replayed = await replayDeliveries(context, project.id, id.toLowerCase(), input);
      for (const kind of REPLAY_KINDS) context.wake(kind);
      return replayed;
    },
  });
}

/**
 * The deliveries of a broadcast. First pages without a search are read for all broadcasts of a query at once.
 */
function deliveriesOf(
  { context: { db, config }, caller, loaders }: Scope,
  broadcastId: string,
  args: Static<typeof DeliveryArgs>,
  present: (delivery: DeliveryRecord) => object,
): Connection {
  const page = readPageArgs(args, (text) => DELIVERY_CURSOR.test(text));
  const filter = {
    ...(args.state ? { state: args.state } : {}),
    ...(args.channel ? { channel: args.channel } : {}),
  };
  const ledger = { db, brand: config.BRAND, projectId: caller.project.id };
  const search = () => listDeliveries(ledger, broadcastId, filter, page);
  const { channel, state } = filter;
  const isFirst = page.direction === 'older' && page.id === NEWEST && state === undefined;
  return connect({
    page: isFirst ? () => loaders.firstDeliveries(broadcastId, { channel, limit: page.limit }) : search,
    edge: ({ id, delivery }) => ({ cursor: id, node: present(delivery) }),
    ...(state === undefined || state === 'failed'
      ? { count: () => loaders.deliveryCount(broadcastId, { channel, failed: state === 'failed' }) }
      : {}),
  });
}

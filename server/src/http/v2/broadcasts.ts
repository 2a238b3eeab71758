import { Type } from 'typebox';
import { BroadcastSchema, NewBroadcastSchema } from '../../contract/broadcast.ts';
import { Id, PageQuery, page } from '../../contract/common.ts';
import { sendBroadcast } from '../../domain/line/accept/send-broadcast.ts';
import { broadcastsJson, getBroadcast, listBroadcasts } from '../../domain/line/broadcasts/get.ts';
import { unwrittenProblems } from '../../domain/line/broadcasts/problems.ts';
import { ClientError } from '../../errors.ts';
import { jsonMember } from '../../lib/json-member.ts';
import { bodyBytesForHeap } from '../body-budget.ts';
import { pageThatFits } from '../pagination.ts';
import { rawJson } from '../reply.ts';
import { type App, projectRoute } from '../route.ts';

// The longest content has 10,485,760 characters, and JSON may spell one as \uXXXX\uXXXX, which makes 126 MB;
// overrides and a thousand recipients come on top. V8 ends the process, not only a thread, when one text does
// not fit the heap: a small heap has a lower limit.
const BODY_LIMIT_BYTES = Math.min(192 * 1024 * 1024, bodyBytesForHeap());

/** POST, GET and list of /broadcasts. */
export function broadcastRoutes(app: App): void {
  projectRoute(app, {
    method: 'POST',
    url: '/broadcasts',
    operationId: 'createBroadcast',
    summary: 'Send a broadcast to up to 1000 recipients',
    description:
      'Each user addressed gets one notification; users that do not exist yet are created. Answers as soon as the broadcast is safely stored; `status` of the broadcast tells how delivery goes on.',
    tags: ['Broadcasts'],
    body: NewBroadcastSchema,
    alsoWrong: ({ body }) => unwrittenProblems(body),
    unwrap: 'broadcast',
    bodyLimit: BODY_LIMIT_BYTES,
    longArray: 'recipients',
    reply: { 201: BroadcastSchema },
    refuseUnknown: true,
    idempotency: 'own',
    async handler({ project, body, request, idempotencyKey: idempotency, reply }) {
      const { longArray, bodyJson: json, bodyTexts: members } = request;
      const recipients = longArray ?? members?.get('recipients') ?? (json && jsonMember(json, 'recipients'));
      const raw = { json, recipients, members };
      const sent = await sendBroadcast(app.context, project, body, { raw, idempotency });
      if (sent.replayed) reply.header('idempotency-replayed', 'true');
      return rawJson(sent.json);
    },
  });

  projectRoute(app, {
    method: 'GET',
    url: '/broadcasts',
    operationId: 'listBroadcasts',
    summary: 'List the broadcasts of the project, newest first',
    description:
      'A page whose texts are very large (16 MiB and more together) may hold fewer than `limit`; `links.next` tells whether there are more.',
    tags: ['Broadcasts'],
    query: PageQuery,
    reply: { 200: page(BroadcastSchema) },
    async handler({ project, query, paginate, context }) {
      const page = await pageThatFits(
        query,
        (fitting) =>
          paginate(
            fitting,
            (cursor) => listBroadcasts(context.db, project.id, cursor),
            (row) => row,
          ),
        (rows) => broadcastsJson(context.db, project.id, rows),
      );
      return rawJson(page);
    },
  });

  projectRoute(app, {
    method: 'GET',
    url: '/broadcasts/:broadcast_id',
    operationId: 'getBroadcast',
    summary: 'Get a broadcast with the state of its delivery',
    tags: ['Broadcasts'],
    params: Type.Object({ broadcast_id: Id }),
    reply: { 200: BroadcastSchema },
    async handler({ project, params, context }) {
      const json = await getBroadcast(context.db, project.id, params.broadcast_id);
      if (json === undefined) throw new ClientError('not_found');
      return rawJson(json);
    },
  });
}

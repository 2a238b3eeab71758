import { Type } from 'typebox';
import { PageQuery } from '../../contract/common.ts';
import { SaveSubscription, Subscription, SubscriptionPage } from '../../contract/topic.ts';
import { deleteSubscription } from '../../domain/people/topics/delete.ts';
import { listSubscriptions, subscriptionOf } from '../../domain/people/topics/list.ts';
import { repeatsIn, saveSubscription } from '../../domain/people/topics/save.ts';
import { ClientError } from '../../errors.ts';
import { type App, userRoute } from '../route.ts';

const tags: [string] = ['Topics'];
const url = '/subscriptions';
const ByTopic = Type.Object({
  topic: Type.String({
    description: 'The topic; a `/` in it is written `%2F`.',
    examples: ['orders%2F1042'],
  }),
});

/** POST and GET of /subscriptions, and DELETE: what users are told about, because they wanted to be. */
export function subscriptionRoutes(app: App): void {
  userRoute(app, {
    method: 'POST',
    url,
    operationId: 'saveSubscription',
    summary: 'Subscribe to a topic, or to categories of it, or unsubscribe',
    description:
      'A broadcast that is sent to the subscribers of its topic reaches who is subscribed to its category: the status of that category counts or, where there is none, that of `*`. ' +
      'Changes what is named, and nothing else; unsubscribing from `*` leaves the topic, and takes back what was said about single categories. ' +
      'Saying the same again changes nothing. A broadcast that names the user as a recipient is not held back by it.',
    tags,
    body: SaveSubscription,
    keysAndValues: 5_000,
    alsoWrong: ({ body }) => repeatsIn(body),
    reply: { 200: Subscription },
    handler: ({ user, project, body, context }) =>
      saveSubscription(context, { projectId: project.id, userId: user.id }, body),
  });

  userRoute(app, {
    method: 'GET',
    url,
    operationId: 'listSubscriptions',
    summary: 'List the topics about which the user has said something, the newest first',
    tags,
    query: PageQuery,
    reply: { 200: SubscriptionPage },
    handler: ({ user, query, paginate, context }) =>
      paginate(query, (cursor) => listSubscriptions(context.db, user.id, cursor), subscriptionOf),
  });

  userRoute(app, {
    method: 'DELETE',
    url: `${url}/:topic`,
    operationId: 'deleteSubscription',
    summary: 'Forget all that the user has said about a topic',
    description: 'The user is then subscribed to no category of it. Answers what was forgotten.',
    tags,
    params: ByTopic,
    reply: { 200: Subscription },
    async handler({ user, project, params, context }) {
      const who = { projectId: project.id, userId: user.id };
      const deleted = await deleteSubscription(context, who, params.topic);
      if (deleted === undefined) throw new ClientError('not_found');
      return deleted;
    },
  });
}

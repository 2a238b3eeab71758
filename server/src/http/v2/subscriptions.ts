import { PageQuery } from '../../contract/common.ts';
import { SaveSubscription, Subscription, SubscriptionPage, TopicInPath } from '../../contract/topic.ts';
import { deleteSubscription } from '../../domain/people/topics/delete.ts';
import { listSubscriptions, subscriptionOf } from '../../domain/people/topics/list.ts';
import { repeatedCategories, saveSubscription } from '../../domain/people/topics/save.ts';
import { found } from '../found.ts';
import type { App } from '../route.ts';
import { routeOfUser } from '../route-of-user.ts';

const tags: [string] = ['Topics'];
const url = '/subscriptions';

/** Registers `/subscriptions`, and the same below `/users/{user_id}`: the topics of a user. */
export function subscriptionRoutes(app: App): void {
  routeOfUser(app, {
    method: 'POST',
    url,
    operationId: 'saveSubscription',
    summary: 'Subscribe to a topic or unsubscribe from it',
    forProject: { summary: 'Subscribe a user to a topic or unsubscribe it' },
    description:
      'Changes only the categories in the body. A broadcast to the subscribers of the topic reaches the ' +
      'user according to the status of its category, or of `*` if its category has none; unsubscribing ' +
      'from `*` removes all other categories. A broadcast that names the user as a recipient arrives in ' +
      'any case.',
    tags,
    body: SaveSubscription,
    keysAndValues: 5_000,
    alsoWrong: ({ body }) => repeatedCategories(body),
    reply: { 200: Subscription },
    handler: ({ owner, body, context }) => saveSubscription(context, owner, body),
  });

  routeOfUser(app, {
    method: 'GET',
    url,
    operationId: 'listSubscriptions',
    summary: 'List the subscriptions of the user, newest first',
    forProject: { summary: 'List the subscriptions of a user, newest first' },
    description:
      'Returns every topic that the user subscribed to or unsubscribed from, with the status of its ' +
      'categories.',
    tags,
    query: PageQuery,
    reply: { 200: SubscriptionPage },
    handler: ({ user, query, paginate, context }) =>
      paginate(query, (cursor) => listSubscriptions(context.db, user.id, cursor), subscriptionOf),
  });

  routeOfUser(app, {
    method: 'DELETE',
    url: `${url}/:topic`,
    operationId: 'deleteSubscription',
    summary: 'Delete a subscription',
    forProject: { summary: 'Delete a subscription of a user' },
    description:
      'Removes the topic with all its categories: broadcasts to its subscribers no longer reach the ' +
      'user. Returns the deleted subscription.',
    tags,
    params: TopicInPath,
    reply: { 200: Subscription },
    async handler({ owner, params, context }) {
      return found(await deleteSubscription(context, owner, params.topic));
    },
  });
}

import { NoContent, nullable } from '../../contract/common.ts';
import { problemsWithin } from '../../contract/problems.ts';
import { EVERY_CATEGORY, type Subscription, TopicInPath } from '../../contract/topic.ts';
import {
  LegacySubscriptionCategories,
  LegacySubscriptions,
  SaveLegacySubscription,
  WrappedSubscription,
} from '../../contract/v1/subscription.ts';
import { deleteSubscribedCategories, deleteSubscription } from '../../domain/people/topics/delete.ts';
import { getSubscription, listSubscriptions, subscriptionOf } from '../../domain/people/topics/list.ts';
import { repeatedCategories, saveSubscription } from '../../domain/people/topics/save.ts';
import { ClientError } from '../../errors.ts';
import { NEWEST } from '../../lib/cursor.ts';
import { memberOf } from '../../lib/members.ts';
import { found } from '../found.ts';
import { topicInPath } from '../in-path.ts';
import { type App, userRoute } from '../route.ts';

const tags: [string] = ['Topics'];
const url = '/subscriptions';
const MAX_LISTED = 1_000;
const ALL = [{ slug: EVERY_CATEGORY }];

/** Registers `/subscriptions`: the topics of a user. */
export function subscriptionRoutes(app: App): void {
  userRoute(app, {
    method: 'POST',
    url,
    operationId: 'saveSubscriptionV1',
    summary: 'Subscribe to a topic',
    description:
      'Changes only the categories in the body; without any, the user subscribes to the whole topic. `*` ' +
      'means every category.',
    tags,
    body: SaveLegacySubscription,
    keysAndValues: 5_000,
    alsoWrong: ({ body }) => problemsOf(body),
    reply: { 200: WrappedSubscription },
    async handler({ owner, body, context }) {
      rejectRepeated(body);
      return shown(await saveSubscription(context, owner, body.subscription));
    },
  });

  userRoute(app, {
    method: 'GET',
    url,
    operationId: 'listSubscriptionsV1',
    summary: 'List the subscriptions of the user, newest first',
    description: 'Returns the newest 1,000. Version 2 lists all, in pages.',
    tags,
    reply: { 200: LegacySubscriptions },
    async handler({ user, context }) {
      const newest = { direction: 'older', id: NEWEST, limit: MAX_LISTED } as const;
      const rows = await listSubscriptions(context.db, user.id, newest);
      return { subscriptions: rows.map((row) => shown(subscriptionOf(row)).subscription) };
    },
  });

  userRoute(app, {
    method: 'GET',
    url: `${url}/:topic`,
    operationId: 'getSubscriptionV1',
    summary: 'Get the subscription of the user to a topic',
    description: 'Responds 404 if the user has neither subscribed to the topic nor unsubscribed from it.',
    tags,
    params: TopicInPath,
    reply: { 200: WrappedSubscription },
    async handler({ user, params, context }) {
      return shown(found(await getSubscription(context.db, user.id, params.topic)));
    },
  });

  userRoute(app, {
    method: 'POST',
    url: `${url}/:topic/unsubscribe`,
    operationId: 'unsubscribeFromTopicV1',
    summary: 'Unsubscribe from a topic',
    description:
      'Unsubscribes the user from the categories in the body, or from the whole topic (`*`), which removes ' +
      'all other categories.',
    tags,
    params: TopicInPath,
    body: nullable(LegacySubscriptionCategories),
    alsoWrong: ({ body }) => problemsOf(body),
    reply: { 200: WrappedSubscription },
    async handler({ owner, params, body, context }) {
      rejectRepeated(body);
      const given = body?.subscription.categories ?? [];
      const categories = (given.length > 0 ? given : ALL).map((one) => ({
        ...one,
        status: 'unsubscribed' as const,
      }));
      return shown(await saveSubscription(context, owner, { topic: topicInPath(params), categories }));
    },
  });

  userRoute(app, {
    method: 'DELETE',
    url: `${url}/:topic`,
    operationId: 'deleteSubscriptionV1',
    summary: 'Delete a subscription',
    description:
      'Deletes the categories in the body, or the whole subscription if there are none: broadcasts to the ' +
      'subscribers of the topic no longer reach the user.',
    tags,
    params: TopicInPath,
    body: nullable(LegacySubscriptionCategories),
    reply: { 204: NoContent },
    async handler({ owner, params, body, context }) {
      const slugs = body?.subscription.categories?.map(({ slug }) => slug) ?? [];
      const found =
        slugs.length === 0
          ? (await deleteSubscription(context, owner, params.topic)) !== undefined
          : await deleteSubscribedCategories(context, owner, params.topic, slugs);
      if (!found) throw new ClientError('not_found');
    },
  });
}

/** Repeated categories, with the names that their fields have in v1. */
function problemsOf(body: unknown): string[] {
  return problemsWithin('subscription', repeatedCategories(memberOf(body, 'subscription')));
}

function rejectRepeated(body: unknown): void {
  const problems = problemsOf(body);
  if (problems.length > 0) throw new ClientError('validation_failed', problems);
}

function shown({ topic, categories }: Subscription) {
  return { subscription: { topic, categories } };
}

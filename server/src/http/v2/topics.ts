import { PageQuery } from '../../contract/common.ts';
import {
  AddSubscribers,
  RemoveSubscribers,
  SubscriberChanges,
  TopicInPath,
  TopicPage,
  TopicPageQuery,
} from '../../contract/topic.ts';
import { UserPage } from '../../contract/user.ts';
import { addSubscribers, removeSubscribers } from '../../domain/people/topics/change-subscribers.ts';
import { listSubscribers } from '../../domain/people/topics/list-subscribers.ts';
import { AFTER_TOPICS, listTopics, topicCursor } from '../../domain/people/topics/list-topics.ts';
import { repeatedCategories } from '../../domain/people/topics/save.ts';
import { userJson } from '../../domain/people/users/get.ts';
import { OLDEST } from '../../lib/cursor.ts';
import { readPage } from '../../lib/page.ts';
import { topicInPath } from '../in-path.ts';
import { readCursor } from '../pagination.ts';
import { rawPage } from '../reply.ts';
import { type App, projectRoute } from '../route.ts';

const tags: [string] = ['Topics'];
const url = '/topics/:topic/subscribers';

// 10,000 users with long names.
const BODY_LIMIT_BYTES = 4 * 1024 * 1024;

/** Registers `/topics`: the topics of a project and their subscribers. */
export function topicRoutes(app: App): void {
  projectRoute(app, {
    method: 'GET',
    url: '/topics',
    operationId: 'listTopics',
    summary: 'List the topics that have subscribers, in alphabetical order',
    description:
      'Returns each topic with the count of its subscribers. The cursors are names of topics. A page of 50 ' +
      'topics with 10,000 subscribers or more takes about 50 ms, whatever the number of users.',
    tags,
    query: TopicPageQuery,
    reply: { 200: TopicPage },
    async handler({ project, query, textPage, context }) {
      const cursor = readCursor(query, topicCursor);
      const page = await readPage(cursor, (at) => listTopics(context.db, project.id, at));
      return textPage({
        ...page,
        newer: page.newer === OLDEST ? AFTER_TOPICS : page.newer,
        items: page.items.map(({ topic, subscribers }) => JSON.stringify({ topic, subscribers })),
      });
    },
  });

  projectRoute(app, {
    method: 'GET',
    url,
    operationId: 'listTopicSubscribers',
    summary: 'List the users that are subscribed to a topic, newest first',
    description:
      'Returns the users that are subscribed to the topic or to some of its categories. Deleted users are ' +
      'not listed.',
    tags,
    params: TopicInPath,
    query: PageQuery,
    reply: { 200: UserPage },
    async handler({ project, params, query, paginate, context }) {
      const of = { projectId: project.id, topic: params.topic };
      const list = await paginate(query, (cursor) => listSubscribers(context.db, of, cursor), userJson);
      return rawPage(list);
    },
  });

  projectRoute(app, {
    method: 'POST',
    url,
    operationId: 'addTopicSubscribers',
    summary: 'Subscribe up to 10,000 users to a topic',
    description:
      'Changes the subscription of each user as `POST /users/{user_id}/subscriptions` does, and creates ' +
      'users that do not exist unless they are named by `id`. `errors` lists the users that cannot be ' +
      'subscribed; all others are, in one transaction.',
    tags,
    params: TopicInPath,
    body: AddSubscribers,
    bodyLimit: BODY_LIMIT_BYTES,
    longArray: 'users',
    alsoWrong: ({ body }) => repeatedCategories(body),
    reply: { 200: SubscriberChanges },
    handler: ({ project, params, body, context, afterCommit }) =>
      addSubscribers(
        { ...context, afterCommit },
        { projectId: project.id, topic: topicInPath(params) },
        body,
      ),
  });

  projectRoute(app, {
    method: 'POST',
    url: `${url}/remove`,
    operationId: 'removeTopicSubscribers',
    summary: 'Delete the subscriptions of up to 10,000 users to a topic',
    description:
      'Deletes the subscription of each user with all its categories, in one transaction. `errors` lists ' +
      'users that do not exist. To keep users from being subscribed to a category, subscribe them with ' +
      'the status `unsubscribed`.',
    tags,
    params: TopicInPath,
    body: RemoveSubscribers,
    bodyLimit: BODY_LIMIT_BYTES,
    longArray: 'users',
    reply: { 200: SubscriberChanges },
    handler: ({ project, params, body, context }) =>
      removeSubscribers(context, { projectId: project.id, topic: topicInPath(params) }, body),
  });
}

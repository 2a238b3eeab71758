import { type Static, Type } from 'typebox';
import { CATEGORY_PATTERN, MAX_CATEGORY_CHARACTERS } from './category.ts';
import {
  EmailAddress,
  ExternalId,
  exampleId,
  given,
  Id,
  oneOf,
  page,
  pageQuery,
  storedString,
} from './common.ts';

/** The name of a topic has the form of a category's key. */
const MAX_TOPIC_CHARACTERS = MAX_CATEGORY_CHARACTERS;
const NAME = new RegExp(CATEGORY_PATTERN);

/** Returns whether a text can be the name of a topic. */
export function isTopic(text: string): boolean {
  return text.length <= MAX_TOPIC_CHARACTERS && NAME.test(text);
}

/** The part of a path that names a topic. */
export const TopicInPath = Type.Object({
  topic: Type.String({
    description: 'The name of the topic. Write a `/` in it as `%2F`.',
    examples: ['orders%2F1042'],
  }),
});

/** Means all categories of a topic, and notifications without one. */
export const EVERY_CATEGORY = '*';

/** The most categories in one request. */
const MAX_CATEGORIES_AT_ONCE = 100;
/** The most users in one request. */
const MAX_USERS_AT_ONCE = 10_000;

const topic = Type.String({
  minLength: 1,
  maxLength: MAX_TOPIC_CHARACTERS,
  pattern: CATEGORY_PATTERN,
  description: 'The subject that users subscribe to: the `topic` of broadcasts.',
  examples: ['orders/1042'],
});
const slug = Type.String({
  minLength: 1,
  maxLength: MAX_CATEGORY_CHARACTERS,
  pattern: '^(\\*|[A-Za-z0-9_.\\-:\\/]+)$',
  description: 'A category. `*` means every category that is not listed, and broadcasts without one.',
  examples: ['comments'],
});
const reason = storedString({
  maxLength: 255,
  description: 'A reason of your own.',
  examples: ['mentioned in a comment'],
});
const status = oneOf(['subscribed', 'unsubscribed']);

const exampleCategories = [
  { slug: '*', status: 'subscribed' },
  { slug: 'comments', reason: 'muted', status: 'unsubscribed' },
];

/** The subscription of a user to a topic. */
export const Subscription = Type.Object(
  {
    id: Id,
    topic,
    categories: Type.Array(
      Type.Object({ slug, reason: Type.Optional(reason), status }, { title: 'CategorySubscription' }),
      {
        description: '`*` is first, then the order is alphabetical.',
      },
    ),
  },
  {
    title: 'Subscription',
    examples: [{ id: exampleId, topic: 'orders/1042', categories: exampleCategories }],
  },
);
export type Subscription = Static<typeof Subscription>;

export const SubscriptionPage = page(Subscription);

/** Changes of the categories of a subscription. */
export const CategoryChanges = Type.Array(
  Type.Object(
    { slug, reason: Type.Optional(reason), status: Type.Optional(status) },
    { title: 'CategorySubscriptionInput', additionalProperties: false },
  ),
  {
    maxItems: MAX_CATEGORIES_AT_ONCE,
    description:
      'Each category once; its status is `subscribed` if omitted. Without categories the user ' +
      'subscribes to the whole topic.',
  },
);

/** The categories to change. Others stay. */
export const SaveSubscription = Type.Object(
  { topic, categories: Type.Optional(CategoryChanges) },
  {
    title: 'SubscriptionInput',
    additionalProperties: false,
    examples: [{ topic: 'orders/1042', categories: exampleCategories }],
  },
);
export type SaveSubscription = Static<typeof SaveSubscription>;

/** A topic with subscribers. */
export const Topic = Type.Object(
  {
    topic,
    subscribers: Type.Integer({
      minimum: 1,
      description:
        'How many users are subscribed to the topic, or to some of its categories. 10,000 means 10,000 or ' +
        'more. A deleted user is counted until it is erased.',
    }),
  },
  { title: 'Topic', examples: [{ topic: 'orders/1042', subscribers: 128 }] },
);
export type Topic = Static<typeof Topic>;

export const TopicPage = page(Topic);

// In links, a name follows a character that it cannot have.
const cursor = (schema: object) =>
  Type.Optional(
    Type.Unsafe<string | null>({ ...schema, format: 'text', maxLength: MAX_TOPIC_CHARACTERS + 1 }),
  );

/** The query of the list of topics, whose cursors are names of topics. */
export const TopicPageQuery = Type.Object({
  limit: pageQuery.limit,
  starting_after: cursor(pageQuery.starting_after),
  ending_before: cursor(pageQuery.ending_before),
});

/** Names a user. */
export const TopicUser = Type.Object(
  {
    id: Type.Optional(Id),
    external_id: Type.Optional(ExternalId),
    email: Type.Optional(EmailAddress),
  },
  {
    title: 'TopicUser',
    additionalProperties: false,
    anyOf: [given('id'), given('external_id'), given('email')],
    'x-problem': 'needs an id, an external_id or an email',
    description: 'A user. `id` wins over `external_id`, and that over `email`.',
  },
);
export type TopicUser = Static<typeof TopicUser>;

const topicUsers = Type.Array(TopicUser, { minItems: 1, maxItems: MAX_USERS_AT_ONCE });
const exampleUsers = [{ external_id: '42' }, { email: 'ada@example.com' }];

/** The users to subscribe, and the categories to change for each. */
export const AddSubscribers = Type.Object(
  { users: topicUsers, categories: Type.Optional(CategoryChanges) },
  { title: 'TopicSubscribersInput', additionalProperties: false, examples: [{ users: exampleUsers }] },
);
export type AddSubscribers = Static<typeof AddSubscribers>;

export const RemoveSubscribers = Type.Object(
  { users: topicUsers },
  { title: 'TopicSubscribersRemovalInput', additionalProperties: false, examples: [{ users: exampleUsers }] },
);
export type RemoveSubscribers = Static<typeof RemoveSubscribers>;

/** The outcome of a change of many users. */
export const SubscriberChanges = Type.Object(
  {
    changed: Type.Integer({
      minimum: 0,
      description: 'Users whose subscription changed, each counted once.',
    }),
    unchanged: Type.Integer({ minimum: 0, description: 'Users whose subscription was already so.' }),
    errors: Type.Array(
      Type.Object(
        { index: Type.Integer({ minimum: 0 }), message: Type.String() },
        { title: 'TopicSubscriberError' },
      ),
      { description: 'Problems of single users, by their place in `users`. The others are changed.' },
    ),
  },
  {
    title: 'TopicSubscriberChanges',
    examples: [{ changed: 1, unchanged: 0, errors: [{ index: 1, message: 'there is no such user' }] }],
  },
);
export type SubscriberChanges = Static<typeof SubscriberChanges>;

import { type Static, Type } from 'typebox';
import { CATEGORY_PATTERN, MAX_CATEGORY_CHARACTERS } from './category.ts';
import { exampleId, Id, oneOf, page, storedString } from './common.ts';

/** The name of a topic has the form of a category's key. */
const MAX_TOPIC_CHARACTERS = MAX_CATEGORY_CHARACTERS;
const NAME = new RegExp(CATEGORY_PATTERN);

/** Returns whether a text can be the name of a topic. */
export function isTopic(text: string): boolean {
  return text.length <= MAX_TOPIC_CHARACTERS && NAME.test(text);
}

/** Means all categories of a topic, and notifications without one. */
export const EVERY_CATEGORY = '*';

/** The most categories in one request. */
const MAX_CATEGORIES_AT_ONCE = 100;

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

/** The categories to change. Others stay. */
export const SaveSubscription = Type.Object(
  {
    topic,
    categories: Type.Optional(
      Type.Array(
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
      ),
    ),
  },
  {
    title: 'SubscriptionInput',
    additionalProperties: false,
    examples: [{ topic: 'orders/1042', categories: exampleCategories }],
  },
);
export type SaveSubscription = Static<typeof SaveSubscription>;

import { type Static, Type } from 'typebox';
import { CATEGORY_PATTERN, MAX_CATEGORY_CHARACTERS } from './category.ts';
import { exampleId, Id, oneOf, page, storedString } from './common.ts';

/** A topic's name is made as a category's is. */
const MAX_TOPIC_CHARACTERS = MAX_CATEGORY_CHARACTERS;
const NAME = new RegExp(CATEGORY_PATTERN);

/** Whether a text can be the name of a topic. */
export function isTopic(text: string): boolean {
  return text.length <= MAX_TOPIC_CHARACTERS && NAME.test(text);
}

/** Stands for all categories of a topic, and for what has none. */
export const EVERY_CATEGORY = '*';

/** How many categories can be named at once. */
const MAX_CATEGORIES_AT_ONCE = 100;

const topic = Type.String({
  minLength: 1,
  maxLength: MAX_TOPIC_CHARACTERS,
  pattern: CATEGORY_PATTERN,
  description: 'What users subscribe to, and broadcasts are about.',
  examples: ['orders/1042'],
});
const slug = Type.String({
  minLength: 1,
  maxLength: MAX_CATEGORY_CHARACTERS,
  pattern: '^(\\*|[A-Za-z0-9_.\\-:\\/]+)$',
  description: 'A category; `*` stands for every category that is not named, and for what has none.',
  examples: ['comments'],
});
const reason = storedString({
  maxLength: 255,
  description: 'Why, in your words.',
  examples: ['mentioned in a comment'],
});
const status = oneOf(['subscribed', 'unsubscribed']);

const exampleCategories = [
  { slug: '*', status: 'subscribed' },
  { slug: 'comments', reason: 'muted', status: 'unsubscribed' },
];

/** What a user has said about a topic. */
export const Subscription = Type.Object(
  {
    id: Id,
    topic,
    categories: Type.Array(
      Type.Object({ slug, reason: Type.Optional(reason), status }, { title: 'CategorySubscription' }),
      {
        description: '`*` first, then by name.',
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

/** What is to be changed about it: a category that is not named stays as it is. */
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
            'Each named once, and `subscribed` unless it says otherwise. Without any, or with none in it, the user subscribes to all of the topic.',
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

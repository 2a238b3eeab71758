import { type Static, Type } from 'typebox';
import { MAX_CONDITION_CHARACTERS } from '../lib/expression.ts';
import { CHANNELS, Channel } from './channel.ts';
import { described, nullable, page, pageQuery, storedString } from './common.ts';
import { Windows } from './delivery-windows.ts';

/** The characters of a category's key. */
export const CATEGORY_PATTERN = '^[A-Za-z0-9_.\\-:\\/]+$';
export const MAX_CATEGORY_CHARACTERS = 255;

const KEY = new RegExp(CATEGORY_PATTERN);

/** Returns whether a text can be the key of a category. */
export function isCategoryKey(text: string): boolean {
  return text.length <= MAX_CATEGORY_CHARACTERS && KEY.test(text);
}

/** The name of "no category"; in preferences, unless a category of that name is configured. */
export const UNCATEGORIZED = 'uncategorized';

// The configs of a project are kept in memory.
const MAX_LOCALES = 30;

// Longer than any useful delay, and far within the range of a timestamp.
const MAX_DELAY_SECONDS = 400 * 86_400;

const label = storedString({
  minLength: 1,
  maxLength: 100,
  description: 'The name of the category for users. They see the key if it is omitted.',
  examples: ['Shipped orders'],
});
const description = storedString({
  minLength: 1,
  maxLength: 300,
  description: 'Says which messages the category has, for users.',
  examples: ['When a parcel leaves our warehouse'],
});

const CategoryChannel = Type.Object(
  {
    channel: Channel,
    delay: Type.Optional(
      Type.Integer({
        minimum: 0,
        maximum: MAX_DELAY_SECONDS,
        description: 'Delay of this channel in seconds, at most 400 days.',
      }),
    ),
    if: Type.Optional(
      nullable(
        Type.String({
          maxLength: MAX_CONDITION_CHARACTERS,
          description:
            'A condition in CEL, checked after the delay. The notification is sent on this channel if it ' +
            'holds. It can use `user`, `notification` and `input` (the broadcast), also as Liquid outputs.',
          examples: ['{{notification.unseen}} == true', "user.custom_attributes.plan == 'premium'"],
        }),
      ),
    ),
    windows: Type.Optional(
      described(
        Windows,
        'Delivery windows of the category on this channel, instead of those of the project.',
      ),
    ),
  },
  { title: 'CategoryChannel', additionalProperties: false },
);

const CategoryTexts = Type.Object(
  { label: Type.Optional(label), description: Type.Optional(description) },
  { title: 'CategoryTexts', additionalProperties: false },
);
type CategoryTexts = Static<typeof CategoryTexts>;

/** The label, channels, delays and conditions of a category. */
export const CategoryConfig = Type.Object(
  {
    key: Type.String({
      minLength: 3,
      maxLength: MAX_CATEGORY_CHARACTERS,
      pattern: CATEGORY_PATTERN,
      description: 'The `category` of broadcasts.',
      examples: ['orders/shipped'],
    }),
    label: Type.Optional(label),
    description: Type.Optional(description),
    locales: Type.Optional(
      Type.Unsafe<Record<string, CategoryTexts>>({
        type: 'object',
        maxProperties: MAX_LOCALES,
        additionalProperties: CategoryTexts,
        examples: [{ de: { label: 'Versandte Bestellungen' } }],
        description: 'Translations of `label` and `description` by locale (BCP 47), such as `de` or `pt-BR`.',
      }),
    ),
    disabled: Type.Optional(Type.Boolean({ description: 'Sends nothing of this category.' })),
    critical: Type.Optional(
      Type.Boolean({
        description:
          'Users cannot switch it off, and e-mails have no unsubscribe link, as for login codes. ' +
          'Preferences, quiet hours and delivery windows do not apply. Suppressed addresses get nothing, ' +
          'except e-mail addresses suppressed as `unsubscribed`.',
      }),
    ),
    channels: Type.Array(CategoryChannel, {
      maxItems: CHANNELS.length,
      description: 'The category is sent only on these channels, each listed once.',
    }),
  },
  {
    title: 'CategoryDeliveryConfig',
    additionalProperties: false,
    examples: [
      {
        key: 'orders/shipped',
        label: 'Shipped orders',
        channels: [
          { channel: 'in_app' },
          { channel: 'email', delay: 900, if: '{{notification.unseen}} == true' },
        ],
      },
    ],
  },
);
export type CategoryConfig = Static<typeof CategoryConfig>;

const keyCursor = (description: string) =>
  Type.Optional(
    Type.Unsafe<string | null>({
      type: ['string', 'null'],
      maxLength: MAX_CATEGORY_CHARACTERS,
      description,
    }),
  );

/** A config has no id, so its key is a cursor. The cursors in `links` survive the deletion of a config. */
export const CategoryPageQuery = Type.Object({
  ...pageQuery,
  starting_after: keyCursor('The key of the last record of a page. Returns the page after it.'),
  ending_before: keyCursor('The key of the first record of a page. Returns the page before it.'),
});
export type CategoryPageQuery = Static<typeof CategoryPageQuery>;

export const CategoryPage = page(CategoryConfig);

import { type Static, Type } from 'typebox';
import { MAX_CONDITION_CHARACTERS } from '../lib/expression.ts';
import { CHANNELS, Channel } from './channel.ts';
import { described, nullable, page, pageQuery } from './common.ts';
import { Windows } from './delivery-windows.ts';

/** The characters of a category's key. */
export const CATEGORY_PATTERN = '^[A-Za-z0-9_.\\-:\\/]+$';
export const MAX_CATEGORY_CHARACTERS = 255;

const KEY = new RegExp(CATEGORY_PATTERN);

/** Returns whether a text can be the key of a category. */
export function isCategoryKey(text: string): boolean {
  return text.length <= MAX_CATEGORY_CHARACTERS && KEY.test(text);
}

// Longer than any useful delay, and far within the range of a timestamp.
const MAX_DELAY_SECONDS = 400 * 86_400;

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

/** The channels, delays and conditions of a category. */
export const CategoryConfig = Type.Object(
  {
    key: Type.String({
      minLength: 3,
      maxLength: MAX_CATEGORY_CHARACTERS,
      pattern: CATEGORY_PATTERN,
      description: 'The `category` of broadcasts.',
      examples: ['orders/shipped'],
    }),
    disabled: Type.Optional(Type.Boolean({ description: 'Sends nothing of this category.' })),
    critical: Type.Optional(
      Type.Boolean({
        description:
          'Users cannot switch it off, and e-mails have no unsubscribe link, as for login codes. ' +
          'Preferences and delivery windows do not apply. Suppressed addresses stay suppressed.',
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

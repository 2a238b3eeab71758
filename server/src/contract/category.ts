import { type Static, Type } from 'typebox';
import { MAX_CONDITION_CHARACTERS } from '../lib/expression.ts';
import { CHANNELS, Channel } from './channel.ts';
import { described, nullable, page, pageQuery } from './common.ts';
import { Windows } from './delivery-windows.ts';

/** The characters of a category's name; shared by all that name one. */
export const CATEGORY_PATTERN = '^[A-Za-z0-9_.\\-:\\/]+$';
export const MAX_CATEGORY_CHARACTERS = 255;

const KEY = new RegExp(CATEGORY_PATTERN);

/** Whether a text can be the name of a category. */
export function isCategoryKey(text: string): boolean {
  return text.length <= MAX_CATEGORY_CHARACTERS && KEY.test(text);
}

// Longer than any notice that is worth being sent, and far within what a timestamp can hold.
const MAX_DELAY_SECONDS = 400 * 86_400;

const CategoryChannel = Type.Object(
  {
    channel: Channel,
    delay: Type.Optional(
      Type.Integer({
        minimum: 0,
        maximum: MAX_DELAY_SECONDS,
        description: 'Goes out so many seconds later; at most 400 days.',
      }),
    ),
    if: Type.Optional(
      nullable(
        Type.String({
          maxLength: MAX_CONDITION_CHARACTERS,
          description:
            'Goes out if this condition holds then, after the delay: CEL over `user`, `notification` and `input` (the broadcast), where Liquid outputs may stand for values. `null` is no condition.',
          examples: ['{{notification.unseen}} == true', "user.custom_attributes.plan == 'premium'"],
        }),
      ),
    ),
    windows: Type.Optional(
      described(
        Windows,
        'When this category goes out on this channel, instead of what the project has; see `/channels/delivery_windows`.',
      ),
    ),
  },
  { title: 'CategoryChannel', additionalProperties: false },
);

/** Where, when and on what condition the broadcasts of a category go out. */
export const CategoryConfig = Type.Object(
  {
    key: Type.String({
      minLength: 3,
      maxLength: MAX_CATEGORY_CHARACTERS,
      pattern: CATEGORY_PATTERN,
      description: 'The category of the broadcasts that this is about.',
      examples: ['orders/shipped'],
    }),
    disabled: Type.Optional(Type.Boolean({ description: 'Nothing of this category goes out.' })),
    critical: Type.Optional(
      Type.Boolean({
        description:
          'Users cannot switch it off, and it carries no unsubscribe link: for login codes and the like. Opt-outs and delivery windows ' +
          'do not apply to it; suppressed addresses stay suppressed.',
      }),
    ),
    channels: Type.Array(CategoryChannel, {
      maxItems: CHANNELS.length,
      description: 'The only channels that the category goes out on, each named once.',
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

/** A config has no id, so its key is a cursor; that of `links` stays good when the config is gone. */
export const CategoryPageQuery = Type.Object({
  ...pageQuery,
  starting_after: keyCursor('The key of the last record of a page: answers the page after it.'),
  ending_before: keyCursor('The key of the first record of a page: answers the page before it.'),
});
export type CategoryPageQuery = Static<typeof CategoryPageQuery>;

export const CategoryPage = page(CategoryConfig);

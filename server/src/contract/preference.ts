import { type Static, Type } from 'typebox';
import { CATEGORY_PATTERN, MAX_CATEGORY_CHARACTERS } from './category.ts';
import { CHANNELS, Channel } from './channel.ts';
import { nullable, readOnly } from './common.ts';

export const MAX_PREFERENCE_CATEGORIES = 1_000;
/** Users can name any category, and all preferences of a user are read at once. */
export const MAX_PREFERENCES = MAX_PREFERENCE_CATEGORIES * CHANNELS.length;

const key = Type.String({
  minLength: 1,
  maxLength: MAX_CATEGORY_CHARACTERS,
  pattern: CATEGORY_PATTERN,
  description:
    'The key of a category. `uncategorized` means notifications without one, unless the project configured ' +
    'a category with that key.',
  examples: ['orders/shipped'],
});
const label = nullable(Type.String({ maxLength: 255 }));
const required = Type.Boolean({
  description: 'The category is critical and cannot be switched off.',
});

const example = {
  key: 'orders/shipped',
  channels: [
    { name: 'in_app', enabled: true },
    { name: 'email', enabled: false },
  ],
};

/** The categories that a user gets on each channel. */
export const Preferences = Type.Object(
  {
    categories: Type.Array(
      Type.Object(
        {
          key,
          label,
          required: Type.Optional(required),
          channels: Type.Array(
            Type.Object({ name: Channel, enabled: Type.Boolean() }, { title: 'ChannelPreference' }),
          ),
        },
        { title: 'CategoryPreference' },
      ),
    ),
  },
  { title: 'UserPreferences', examples: [{ categories: [{ ...example, label: null }] }] },
);
export type Preferences = Static<typeof Preferences>;

/** The preferences to change. Others stay. */
export const SavePreferences = Type.Object(
  {
    categories: Type.Optional(
      Type.Array(
        Type.Object(
          {
            key,
            label: Type.Optional(readOnly(label)),
            required: Type.Optional(readOnly(required)),
            channels: Type.Optional(
              Type.Array(
                Type.Object(
                  { name: Channel, enabled: Type.Boolean() },
                  { title: 'ChannelPreferenceInput', additionalProperties: false },
                ),
                {
                  maxItems: CHANNELS.length,
                },
              ),
            ),
          },
          { title: 'CategoryPreferenceInput', additionalProperties: false },
        ),
        { maxItems: MAX_PREFERENCE_CATEGORIES },
      ),
    ),
  },
  {
    title: 'UserPreferencesInput',
    additionalProperties: false,
    description: `A user has at most ${MAX_PREFERENCES} preferences, each for a category on a channel.`,
    examples: [{ categories: [example] }],
  },
);
export type SavePreferences = Static<typeof SavePreferences>;

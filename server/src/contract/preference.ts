import { type Static, Type } from 'typebox';
import { CATEGORY_PATTERN, MAX_CATEGORY_CHARACTERS } from './category.ts';
import { CHANNELS, Channel } from './channel.ts';
import { nullable, readOnly } from './common.ts';

const MAX_CATEGORIES = 1_000;
/** Users may name categories as they like; what they say is kept, and read as a whole. */
export const MAX_PREFERENCES = MAX_CATEGORIES * CHANNELS.length;

const key = Type.String({
  minLength: 1,
  maxLength: MAX_CATEGORY_CHARACTERS,
  pattern: CATEGORY_PATTERN,
  description:
    '`uncategorized` stands for what has no category, unless the project has configured a category of that name.',
  examples: ['orders/shipped'],
});
const label = nullable(Type.String({ maxLength: 255 }));
const required = Type.Boolean({
  description: 'The category is critical: it is always on, and cannot be switched off.',
});

const example = {
  key: 'orders/shipped',
  channels: [
    { name: 'in_app', enabled: true },
    { name: 'email', enabled: false },
  ],
};

/** On which channels a user gets which categories. */
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

/** What of them is to be changed: what is not named stays as it is. */
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
        { maxItems: MAX_CATEGORIES },
      ),
    ),
  },
  {
    title: 'UserPreferencesInput',
    additionalProperties: false,
    description: `Of a user at most ${MAX_PREFERENCES} preferences are kept, of a category on a channel each.`,
    examples: [{ categories: [example] }],
  },
);
export type SavePreferences = Static<typeof SavePreferences>;

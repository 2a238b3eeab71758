import { type Static, Type } from 'typebox';
import { CATEGORY_PATTERN, MAX_CATEGORY_CHARACTERS } from './category.ts';
import { CHANNELS, Channel } from './channel.ts';
import { described, nullable, readOnly } from './common.ts';
import { QuietHours, TimeZone } from './delivery-windows.ts';

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
const label = nullable(
  Type.String({ maxLength: 255, description: 'For people. `null` if the project has not saved one.' }),
);
const description = Type.String({
  maxLength: 300,
  description: 'Which messages it has, for people. Left out if the project has not saved one.',
});
export const required = Type.Boolean({
  description: 'The category is critical and cannot be switched off.',
});

const example = {
  key: 'orders/shipped',
  channels: [
    { name: 'in_app', enabled: true },
    { name: 'email', enabled: false },
  ],
};

const times = {
  time_zone: nullable(
    described(TimeZone, 'The time zone that the user has saved, by its IANA name. `null` if none.'),
  ),
  quiet_hours: nullable(QuietHours),
};
const exampleUrl = 'https://notify.example/preferences/AQGXo8QKG3wtjj9KW2x9jp8';
const preferencesUrl = Type.String({
  description: 'The page on which the user changes these preferences, without a login.',
  examples: [exampleUrl],
});

const members = {
  categories: Type.Array(
    Type.Object(
      {
        key,
        label,
        description: Type.Optional(description),
        required: Type.Optional(required),
        channels: Type.Array(
          Type.Object({ name: Channel, enabled: Type.Boolean() }, { title: 'ChannelPreference' }),
        ),
      },
      { title: 'CategoryPreference' },
    ),
  ),
  ...times,
};

/** The categories that a user gets on each channel, and when. */
export const Preferences = Type.Object(members, { title: 'StoredPreferences' });
export type Preferences = Static<typeof Preferences>;

const exampleTimes = { time_zone: 'Europe/Berlin', quiet_hours: { from: '22:00', to: '07:00' } };

/** The same, with the page for them. */
export const UserPreferences = Type.Object(
  { ...members, preferences_url: preferencesUrl },
  {
    title: 'UserPreferences',
    examples: [
      {
        categories: [{ ...example, label: 'Shipped orders' }],
        ...exampleTimes,
        preferences_url: exampleUrl,
      },
    ],
  },
);

const input = {
  title: 'UserPreferencesInput',
  additionalProperties: false,
  description: `A user has at most ${MAX_PREFERENCES} preferences, each for a category on a channel.`,
};

/** The preferences to change. Others stay. */
export const SavePreferences = Type.Object(
  {
    categories: Type.Optional(
      Type.Array(
        Type.Object(
          {
            key,
            label: Type.Optional(readOnly(label)),
            description: Type.Optional(readOnly(description)),
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
    time_zone: Type.Optional(
      nullable(described(TimeZone, 'The time zone of the user, by its IANA name. `null` removes it.')),
    ),
    quiet_hours: Type.Optional(nullable(QuietHours)),
    preferences_url: Type.Optional(readOnly(preferencesUrl)),
  },
  {
    ...input,
    examples: [{ categories: [example], ...exampleTimes }],
  },
);
export type SavePreferences = Static<typeof SavePreferences>;

/** The same, without the times. */
export const SaveCategoryPreferences = Type.Pick(SavePreferences, ['categories'], input);

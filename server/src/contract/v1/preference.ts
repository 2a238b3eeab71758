import { type Static, Type } from 'typebox';
import { CATEGORY_PATTERN, MAX_CATEGORY_CHARACTERS } from '../category.ts';
import { CHANNELS, Channel } from '../channel.ts';
import { MAX_PREFERENCE_CATEGORIES, required } from '../preference.ts';

/** The channels of v1's flags. */
export const FLAGGED_CHANNELS = ['email', 'in_app', 'mobile_push', 'web_push'] as const;

const Flags = Type.Object(
  Object.fromEntries(FLAGGED_CHANNELS.map((channel) => [channel, Type.Optional(Type.Boolean())])),
  { title: 'LegacyChannelFlags' },
);

const FlagMap = Type.Object(
  { categories: Type.Record(Type.String(), Flags) },
  {
    title: 'LegacyPreferenceFlags',
    examples: [{ categories: { comments: { email: false, in_app: true } } }],
  },
);

const label = Type.String({ description: 'For people.' });

const List = Type.Object(
  {
    categories: Type.Array(
      Type.Object(
        {
          slug: Type.String(),
          label,
          required: Type.Optional(required),
          channels: Type.Array(
            Type.Object(
              { slug: Channel, label, enabled: Type.Boolean() },
              { title: 'LegacyChannelPreference' },
            ),
          ),
        },
        { title: 'LegacyCategoryPreference' },
      ),
    ),
  },
  { title: 'LegacyPreferenceList' },
);

/** The preferences of a user: flags, or the list with `accept-version: v2`. */
export const LegacyPreferences = Type.Object(
  { notification_preferences: Type.Union([FlagMap, List]) },
  {
    title: 'LegacyPreferences',
    examples: [{ notification_preferences: { categories: { comments: { email: false, in_app: true } } } }],
  },
);

const slug = Type.String({
  minLength: 1,
  maxLength: MAX_CATEGORY_CHARACTERS,
  pattern: CATEGORY_PATTERN,
});

const SaveFlags = Type.Unsafe<Record<string, Record<string, boolean>>>({
  type: 'object',
  propertyNames: slug,
  maxProperties: MAX_PREFERENCE_CATEGORIES,
  additionalProperties: {
    type: 'object',
    properties: Flags.properties,
    additionalProperties: false,
  },
});

const SaveList = Type.Array(
  Type.Object(
    {
      slug,
      label: Type.Optional(label),
      required: Type.Optional(required), // as it was read
      channels: Type.Array(
        Type.Object(
          { slug: Channel, label: Type.Optional(label), enabled: Type.Boolean() },
          { title: 'LegacyChannelPreferenceInput', additionalProperties: false },
        ),
        { maxItems: CHANNELS.length },
      ),
    },
    { title: 'LegacyCategoryPreferenceInput', additionalProperties: false },
  ),
  { maxItems: MAX_PREFERENCE_CATEGORIES },
);

export type LegacyPreferences = Static<typeof LegacyPreferences>;

/** The preferences to change, in either shape. Others stay. */
export const SaveLegacyPreferences = Type.Object(
  {
    notification_preferences: Type.Object(
      { categories: Type.Union([SaveFlags, SaveList]) },
      { title: 'LegacyPreferencesToSave', additionalProperties: false },
    ),
  },
  {
    title: 'LegacyPreferencesInput',
    additionalProperties: false,
    examples: [{ notification_preferences: { categories: { comments: { email: false } } } }],
  },
);

import { type Static, Type } from 'typebox';
import { CHANNELS } from './channel.ts';
import { described, oneOf } from './common.ts';

/** In the order of ISO 8601: Monday is the first. */
export const WEEKDAYS = [
  'monday',
  'tuesday',
  'wednesday',
  'thursday',
  'friday',
  'saturday',
  'sunday',
] as const;

/** The channels that can disturb somebody; the inbox cannot. */
const DISTURBING = CHANNELS.filter((channel) => channel !== 'in_app') as Exclude<
  (typeof CHANNELS)[number],
  'in_app'
>[];

const MAX_WINDOWS = 20;

const Window = Type.Object(
  {
    days: Type.Optional(
      Type.Array(oneOf(WEEKDAYS), {
        minItems: 1,
        maxItems: WEEKDAYS.length,
        uniqueItems: true,
        description: 'The days on which the window begins; every day when left out.',
      }),
    ),
    from: Type.String({
      pattern: '^([01][0-9]|2[0-3]):[0-5][0-9]$',
      'x-problem': 'must be a time of day such as 08:00',
      description: 'When it begins, by the clock of the user’s time zone.',
      examples: ['08:00'],
    }),
    to: Type.String({
      pattern: '^(([01][0-9]|2[0-3]):[0-5][0-9]|24:00)$',
      'x-problem': 'must be a time of day such as 21:00, or 24:00',
      description:
        'When it ends, ten minutes after `from` or later; on the next day, where that is not later than `from`.',
      examples: ['21:00'],
    }),
  },
  { title: 'DeliveryWindow', additionalProperties: false },
);

/** Stretches of the week. */
export const Windows = Type.Array(Window, {
  minItems: 1,
  maxItems: MAX_WINDOWS,
  description: 'When messages go out. What comes at another time is held until the next window opens.',
});
export type Windows = Static<typeof Windows>;

const TimeZone = Type.String({
  maxLength: 64,
  description: 'An IANA name.',
  examples: ['Europe/Berlin'],
});

const channels = Type.Array(
  Type.Object(
    { channel: oneOf(DISTURBING), windows: Windows },
    { title: 'ChannelDeliveryWindows', additionalProperties: false },
  ),
  {
    maxItems: DISTURBING.length,
    description: 'Each channel once. On those that are not named, messages go out at any time.',
  },
);

const examples = [
  {
    time_zone: 'Europe/Berlin',
    channels: [
      { channel: 'sms', windows: [{ from: '08:00', to: '21:00' }] },
      {
        channel: 'mobile_push',
        windows: [
          { days: ['monday', 'tuesday', 'wednesday', 'thursday', 'friday'], from: '07:00', to: '22:00' },
          { days: ['saturday', 'sunday'], from: '10:00', to: '23:00' },
        ],
      },
    ],
  },
];

/** When a project's messages go out. */
export const ProjectDeliveryWindows = Type.Object(
  {
    time_zone: Type.Optional(
      described(TimeZone, 'Of the users whose own is not known. An IANA name; `UTC` when left out.'),
    ),
    channels,
  },
  { title: 'DeliveryWindows', additionalProperties: false, examples },
);

/** When messages reach a user: their own word, which goes before the project's and a category's. */
export const UserDeliveryWindows = Type.Object(
  {
    time_zone: Type.Optional(
      described(
        TimeZone,
        'The user’s own. An IANA name; when left out, `custom_attributes.time_zone` of the user, and without one the project’s.',
      ),
    ),
    channels,
  },
  { title: 'UserDeliveryWindows', additionalProperties: false, examples },
);

export type DeliveryWindows = Static<typeof ProjectDeliveryWindows>;

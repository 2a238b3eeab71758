import { type Static, Type } from 'typebox';
import { CHANNELS } from './channel.ts';
import { described, oneOf } from './common.ts';

/** In the order of ISO 8601, which starts with Monday. */
export const WEEKDAYS = [
  'monday',
  'tuesday',
  'wednesday',
  'thursday',
  'friday',
  'saturday',
  'sunday',
] as const;

/** The channels that can disturb a user. The inbox cannot. */
export const DISTURBING = CHANNELS.filter((channel) => channel !== 'in_app') as Exclude<
  (typeof CHANNELS)[number],
  'in_app'
>[];

/** The channels on which the quiet hours of a user count. An e-mail does not interrupt. */
export const INTERRUPTING: ReadonlySet<string> = new Set(DISTURBING.filter((channel) => channel !== 'email'));

const MAX_WINDOWS = 20;

const Window = Type.Object(
  {
    days: Type.Optional(
      Type.Array(oneOf(WEEKDAYS), {
        minItems: 1,
        maxItems: WEEKDAYS.length,
        uniqueItems: true,
        description: 'The days on which the window begins. Every day if omitted.',
      }),
    ),
    from: Type.String({
      pattern: '^([01][0-9]|2[0-3]):[0-5][0-9]$',
      'x-problem': 'must be a time of day such as 08:00',
      description: 'The time at which it begins, in the time zone of the user.',
      examples: ['08:00'],
    }),
    to: Type.String({
      pattern: '^(([01][0-9]|2[0-3]):[0-5][0-9]|24:00)$',
      'x-problem': 'must be a time of day such as 21:00, or 24:00',
      description:
        'The time at which it ends, at least ten minutes after `from`. On the next day if it is not later ' +
        'than `from`.',
      examples: ['21:00'],
    }),
  },
  { title: 'DeliveryWindow', additionalProperties: false },
);

/** Parts of the week. */
export const Windows = Type.Array(Window, {
  minItems: 1,
  maxItems: MAX_WINDOWS,
  description:
    'The hours in which messages are sent. Other messages are deferred until the next window opens.',
});
export type Windows = Static<typeof Windows>;

/** When a user wants no interruptions. */
export const QuietHours = Type.Object(
  {
    days: Type.Optional(
      described(Window.properties.days, 'The days on which they begin. Every day if omitted.'),
    ),
    from: described(Window.properties.from, 'The local time at which they begin.'),
    to: described(
      Window.properties.to,
      'The local time at which they end, at least ten minutes after `from`. On the next day if it is not ' +
        'later than `from`.',
    ),
  },
  {
    title: 'QuietHours',
    additionalProperties: false,
    description:
      'Text messages, push and chat messages wait until they end, unless their category is critical. The ' +
      'inbox and e-mails do not.',
    examples: [{ from: '22:00', to: '07:00' }],
  },
);
export type QuietHours = Static<typeof QuietHours>;

export const TimeZone = Type.String({
  maxLength: 64,
  description: 'A time zone by its IANA name.',
  examples: ['Europe/Berlin'],
});

const channels = Type.Array(
  Type.Object(
    { channel: oneOf(DISTURBING), windows: Windows },
    { title: 'ChannelDeliveryWindows', additionalProperties: false },
  ),
  {
    maxItems: DISTURBING.length,
    description: 'Each channel once. On other channels messages are sent at any time.',
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

/** The delivery windows of a project. */
export const ProjectDeliveryWindows = Type.Object(
  {
    time_zone: Type.Optional(
      described(TimeZone, 'The time zone of users without one of their own. An IANA name; `UTC` if omitted.'),
    ),
    channels,
  },
  { title: 'DeliveryWindows', additionalProperties: false, examples },
);

/** The delivery windows of a user. They take precedence over those of the project and of categories. */
export const UserDeliveryWindows = Type.Object(
  {
    time_zone: Type.Optional(
      described(
        TimeZone,
        'The time zone of the user. An IANA name; if omitted, `custom_attributes.time_zone` of the user, ' +
          'or else that of the project.',
      ),
    ),
    channels,
  },
  { title: 'UserDeliveryWindows', additionalProperties: false, examples },
);

export type DeliveryWindows = Static<typeof ProjectDeliveryWindows>;

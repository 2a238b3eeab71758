import { type Static, Type } from 'typebox';
import { oneOf } from './common.ts';

/** Whether opens and clicks are recorded. */
export const Tracking = Type.Object(
  {
    opens: Type.Boolean({
      description: 'Records opens: e-mails load a transparent image from the server.',
    }),
    clicks: Type.Boolean({
      description:
        'Records clicks: links of e-mails lead through the server, web push messages have a ' +
        '`tracking_url`, and clients can report clicks.',
    }),
  },
  { title: 'Tracking', additionalProperties: false, examples: [{ opens: false, clicks: true }] },
);
export type Tracking = Static<typeof Tracking>;

/** The channels for which clients report clicks. Those of e-mails need no report. */
const CLICKED_CHANNELS = ['in_app', 'mobile_push', 'web_push'] as const;
export type ClickedChannel = (typeof CLICKED_CHANNELS)[number];

/** A click on a notification. */
export const Click = Type.Object(
  {
    channel: Type.Optional(
      oneOf(CLICKED_CHANNELS, { description: 'Where it was clicked; `in_app` if omitted.' }),
    ),
  },
  { title: 'ClickInput', additionalProperties: false, examples: [{ channel: 'mobile_push' }] },
);

import { type Static, Type } from 'typebox';
import { oneOf } from './common.ts';

/** Whether it is recorded what recipients do with what they get. */
export const Tracking = Type.Object(
  {
    opens: Type.Boolean({
      description: 'E-mails load a transparent picture from the server when they are opened.',
    }),
    clicks: Type.Boolean({
      description:
        'Links of e-mails lead over the server, web push has a `tracking_url`, and the clicks that clients report are recorded.',
    }),
  },
  { title: 'Tracking', additionalProperties: false, examples: [{ opens: false, clicks: true }] },
);
export type Tracking = Static<typeof Tracking>;

/** Where clients report clicks; those of e-mails are noticed by themselves. */
export const CLICKED_CHANNELS = ['in_app', 'mobile_push', 'web_push'] as const;
export type ClickedChannel = (typeof CLICKED_CHANNELS)[number];

/** A click on a notification. */
export const Click = Type.Object(
  {
    channel: Type.Optional(
      oneOf(CLICKED_CHANNELS, { description: 'Where it was clicked; `in_app` when left out.' }),
    ),
  },
  { title: 'ClickInput', additionalProperties: false, examples: [{ channel: 'mobile_push' }] },
);

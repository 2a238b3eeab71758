import { oneOf } from './common.ts';

/** Every channel on which a notification can be sent. */
export const CHANNELS = ['in_app', 'slack', 'web_push', 'mobile_push', 'teams', 'email', 'sms'] as const;

/** One of them. */
export const Channel = oneOf(CHANNELS, { title: 'Channel' });

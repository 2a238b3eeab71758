import { oneOf } from './common.ts';

/** Every channel that a notification can go out on. */
export const CHANNELS = ['in_app', 'slack', 'web_push', 'mobile_push', 'teams', 'email', 'sms'] as const;

/** One of them. */
export const Channel = oneOf(CHANNELS, { title: 'Channel' });

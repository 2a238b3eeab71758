import type { NotificationContent } from '../../server/src/providers/provider.ts';
import { notificationContent } from '../../server/test/support/notification-content.ts';

/** What providers render their messages from: a text of usual length, which does not expire meanwhile. */
export const CONTENT: NotificationContent = notificationContent({
  text: 'It arrives on Monday, between nine and twelve. You can still change where it goes.',
  expiresAt: new Date(Date.now() + 86_400_000),
});

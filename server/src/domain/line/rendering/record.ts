import { timeOf } from '../../../lib/ids.ts';
import type { NotificationRecord } from '../../../providers/provider.ts';
import type { BroadcastTexts } from '../routing/condition-data.ts';
import type { ChannelTexts, Prepared, StoredContent } from './channel-texts.ts';

/** A broadcast as deliveries need it. */
export interface LoadedBroadcast extends BroadcastTexts {
  overrides: StoredContent['overrides'];
  /** Its texts on the channels of the jobs, except the inbox. */
  texts: ReadonlyMap<string, Prepared>;
  /** Its category is critical: users cannot switch it off. */
  critical: boolean;
}

/** The columns of a user that deliveries and their messages need. */
export interface LoadedUser {
  id: string;
  external_id: string | null;
  email: string | null;
  first_name: string | null;
  last_name: string | null;
  /** JSON text of an object. */
  custom_attributes: string | null;
  phone_numbers: string[];
  created_at: Date;
  updated_at: Date;
  last_seen_at: Date | null;
}

/** A notification with its user as the API shows them, its texts being those of the channel. */
export function notificationRecord(
  id: string,
  broadcast: Pick<StoredContent, 'overrides'> & BroadcastTexts,
  texts: ChannelTexts,
  user: LoadedUser,
): NotificationRecord {
  const sentAt = new Date(timeOf(broadcast.id));
  const { category, topic, message, overrides } = broadcast;
  return {
    id,
    ...texts,
    category,
    topic,
    customAttributes: message.custom_attributes ?? null,
    overrides: Object.keys(overrides).length === 0 ? null : overrides,
    updatedAt: sentAt,
    recipient: {
      id: user.id,
      externalId: user.external_id,
      email: user.email,
      firstName: user.first_name,
      lastName: user.last_name,
      customAttributes:
        user.custom_attributes === null
          ? null
          : (JSON.parse(user.custom_attributes) as Record<string, unknown>),
      phoneNumbers: user.phone_numbers,
      createdAt: user.created_at,
      updatedAt: user.updated_at,
      lastSeenAt: user.last_seen_at,
      lastNotifiedAt: sentAt, // of this very notification
    },
  };
}

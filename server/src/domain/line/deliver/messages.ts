import type { KeyObject } from 'node:crypto';
import type {
  EmailMessage,
  NotificationContent,
  NotificationRecord,
  Override,
  Rejection,
  TeamsMessage,
} from '../../../providers/provider.ts';
import type { TrackedLinks } from '../../ground/links/links.ts';
import { referenceOf } from '../../ground/links/reference.ts';
import type { OpenedIntegration } from '../../setup/integrations/of-project.ts';
import type { Prepared } from '../rendering/channel-texts.ts';
import { emailHeaders, finishEmail } from '../rendering/email.ts';
import type { LoadedUser } from '../rendering/record.ts';
import { notificationRecord } from '../rendering/record.ts';
import type { LoadedBroadcast } from './load.ts';

/** A delivery as far as its messages are made of it. All of this is pure. */
export interface Message {
  /** The notification's. */
  id: string;
  broadcast: LoadedBroadcast;
  user: LoadedUser;
  /** The broadcast's texts on the channel. */
  said: Prepared;
  /** When it was due at first, and when it is no news any more. */
  dueAtMs: number;
  expiresAtMs: number;
  /** Where a click on it is told to, on the channel where nothing else can. */
  trackingUrl?: string;
}

/** What e-mails have besides. */
export interface Mailing {
  brand: string;
  /** What the project's own mailer verifies the request with. */
  signingKeys: readonly KeyObject[];
  /** Signed, and made for e-mails alone. Undefined where the category cannot be switched off. */
  unsubscribeUrl(): string | undefined;
  tracked?: TrackedLinks;
}

/** The e-mail to an address over an integration. */
export function emailMessage(
  message: Message,
  { email, integration, mailing }: { email: string; integration: OpenedIntegration; mailing: Mailing },
): EmailMessage | Rejection {
  const { id, broadcast, user, said, dueAtMs } = message;
  if (!('email' in said)) throw new Error('the texts of another channel');
  const { brand, signingKeys, tracked } = mailing;
  const unsubscribeUrl = mailing.unsubscribeUrl();
  const name = [user.first_name, user.last_name].filter(Boolean).join(' ');
  const { title, content, actionUrl } = said;
  return {
    deliveryId: id,
    reference: referenceOf({ broadcastId: broadcast.id, userId: user.id }),
    to: { email, ...(name === '' ? {} : { name }) },
    ...finishEmail(said.email, { unsubscribeUrl, ...(tracked === undefined ? {} : { tracked }) }),
    headers: emailHeaders({ notificationId: id, brand, unsubscribeUrl }),
    critical: broadcast.critical,
    date: new Date(dueAtMs),
    notification: (): NotificationRecord =>
      notificationRecord(id, broadcast, { title, content, actionUrl }, user),
    signing: { header: `X-${brand.toUpperCase()}-SIGNATURE`, keys: signingKeys },
    ...overrideFor(broadcast, integration),
  };
}

/** What the messages of all other channels have in common, over an integration. */
export function contentOf(message: Message, integration: OpenedIntegration): NotificationContent {
  const { id, broadcast, user, said, expiresAtMs, trackingUrl } = message;
  if (!('text' in said)) throw new Error('the texts of e-mail');
  const { title, content, actionUrl, text } = said;
  return {
    deliveryId: id,
    reference: referenceOf({ broadcastId: broadcast.id, userId: user.id }),
    notificationId: id,
    title,
    content,
    text,
    actionUrl,
    category: broadcast.category,
    topic: broadcast.topic,
    customAttributes: broadcast.message.custom_attributes ?? null,
    expiresAt: new Date(expiresAtMs),
    ...(trackingUrl === undefined ? {} : { trackingUrl }),
    ...overrideFor(broadcast, integration),
  };
}

/** The message to a channel of Teams: the token's, or else the integration's. */
export function teamsMessage(
  message: Message,
  integration: OpenedIntegration,
  ownUrl: string | undefined,
): TeamsMessage | Rejection {
  const { webhook } = integration.config as { webhook?: { url?: string } };
  const webhookUrl = ownUrl ?? webhook?.url;
  return webhookUrl === undefined ? NO_DESTINATION : { ...contentOf(message, integration), webhookUrl };
}

const NO_DESTINATION: Rejection = {
  kind: 'rejected',
  scope: 'message',
  code: 'no_destination',
  reason: 'neither the token nor the integration has the address of a webhook',
};

/**
 * What the broadcast says for the provider alone. The server's own app for Slack has that of Slack: it is the
 * same payload.
 */
function overrideFor(
  { overrides }: LoadedBroadcast,
  { provider }: OpenedIntegration,
): { override?: Override } {
  const all: Record<string, Override | undefined> = overrides.providers ?? {};
  const name = provider === 'slackbot' ? 'slack' : provider;
  const override = Object.hasOwn(all, name) ? all[name] : undefined;
  return override === undefined ? {} : { override };
}

import { LRUCache } from 'lru-cache';
import type { Config } from '../../../config.ts';
import type { NewBroadcast } from '../../../contract/broadcast.ts';
import type { Tracking } from '../../../contract/tracking.ts';
import { readJson } from '../../../lib/exact-numbers.ts';
import { timeOf } from '../../../lib/ids.ts';
import { Limiter } from '../../../lib/limiter.ts';
import { takeTurns } from '../../../lib/take-turns.ts';
import { delivering } from '../../../providers/index.ts';
import type {
  EmailMessage,
  Message,
  MessageAddress,
  NotificationContent,
  NotificationRecord,
  Override,
  Provider,
  Rejection,
} from '../../../providers/provider.ts';
import { type Language, languageFor } from '../../ground/catalogues/languages.ts';
import { linksOf, pushClickUrl } from '../../ground/links/links.ts';
import { receiptUrl, referenceOf } from '../../ground/links/reference.ts';
import { preferencesUrl, unsubscribeUrl } from '../../ground/links/signed-links.ts';
import type { UserRow } from '../../people/users/get.ts';
import type { OpenedIntegration } from '../../setup/integrations/cache.ts';
import type { Project } from '../../setup/projects/cache.ts';
import { validKeys } from '../../setup/projects/keys.ts';
import { senderOf } from '../../setup/projects/sender.ts';
import { type BroadcastTexts, userData } from '../routing/condition-data.ts';
import { emailHeaders, finishEmail, type PreparedEmail, prepareEmail } from './email.ts';
import { projectData, type RenderedTexts, type TemplateData } from './message-template.ts';
import { plainTextOn } from './plain-text.ts';
import { renderTexts } from './render-thread.ts';
import type { BroadcastTemplate } from './templates.ts';

/*
 * A message is made in two steps. Its texts are prepared: once for all users, or from a template also for one
 * of them. It is rendered for a target and an integration when that can send it.
 */

/** A broadcast's texts on one channel. */
export interface ChannelTexts {
  title: string;
  content: string | null;
  actionUrl: string | null;
}

/** The texts with everything that is rendered once for all users. */
export type Prepared = ChannelTexts & {
  /** The locale of a template's texts. */
  locale?: string;
} & ({ email: PreparedEmail; has?: { unsubscribeUrl: boolean; preferencesUrl: boolean } } | { text: string });

/** A broadcast's content, as it is stored. */
export interface StoredContent {
  message: { title: string; content: string | null; action_url: string | null };
  overrides: NonNullable<NewBroadcast['overrides']>;
}

/** A broadcast as deliveries need it. */
export interface LoadedBroadcast extends BroadcastTexts {
  overrides: StoredContent['overrides'];
  /** Its texts on the channels of the jobs, except the inbox; none if it has a template. */
  texts: ReadonlyMap<string, Prepared>;
  template: BroadcastTemplate | undefined;
  /** Its category is critical: users cannot switch it off. */
  critical: boolean;
  /** It was cancelled. */
  cancelled: boolean;
}

/** The columns of a user that deliveries and their messages need. */
export type LoadedUser = Omit<UserRow, 'last_notified_at'>;

/** What the messages of one delivery are rendered from: the same for all targets and integrations. */
export interface DraftContent {
  config: Config;
  project: Project;
  tracking: Tracking;
  channel: string;
  notificationId: string;
  broadcast: LoadedBroadcast;
  user: LoadedUser;
  /** The broadcast's texts on the channel. */
  texts: Prepared;
  nowMs: number;
  /** When the delivery became due. */
  dueAtMs: number;
  expiresAtMs: number;
}

// A broadcast to half a million users is loaded by thousands of batches, and converting long HTML takes 50
// ms.
const MAX_CHARACTERS = 4_000_000;
const PER_ENTRY = 200; // of memory, beside the text

const plainTexts = new LRUCache<string, string>({
  maxSize: MAX_CHARACTERS,
  sizeCalculation: (text) => text.length + PER_ENTRY,
});

/**
 * Prepares the texts of a broadcast: does once what is the same for all its users. The plain texts of recent
 * broadcasts are cached.
 */
export function prepareTexts(broadcast: StoredContent & { id: string }, channel: string): Prepared {
  const texts = channelTexts(broadcast, channel);
  if (channel === 'email') return { ...texts, email: prepareEmail(texts) };
  const key = `${broadcast.id} ${channel}`;
  const text = plainTexts.get(key) ?? plainTextOn(channel, texts.content);
  plainTexts.set(key, text);
  return { ...texts, text };
}

/** The broadcast's texts on a channel: the channel's override first. Pure. */
function channelTexts({ message, overrides }: StoredContent, channel: string): ChannelTexts {
  const all: Record<string, TextOverride | undefined> = overrides.channels ?? {};
  const override: TextOverride = (Object.hasOwn(all, channel) ? all[channel] : undefined) ?? {};
  return {
    title: override.title ?? message.title,
    content: override.content ?? message.content,
    // An override of null removes the link; without one the broadcast's counts.
    actionUrl: override.action_url === undefined ? message.action_url : override.action_url,
  };
}

type TextOverride = { title?: string; content?: string; action_url?: string | null };

/** A delivery whose texts are made by a template. */
interface Templated {
  config: Config;
  project: Project;
  template: BroadcastTemplate;
  category: string | null;
  /** The category is critical. */
  critical: boolean;
  channel: string;
  user: LoadedUser;
}

// The deliveries of a batch are rendered one after the other, so that others have their turn between them.
const oneAtATime = new Limiter({ maxCount: 1, maxWeight: Number.POSITIVE_INFINITY });
const between = takeTurns();

/** Texts that are the same for all users with a locale, by channel and locale. */
const shared = new WeakMap<BroadcastTemplate, Map<string, Prepared>>();

/** Prepares the texts of a template for a user. Throws TemplateError. */
export function prepareTemplate(templated: Templated): Promise<Prepared> {
  return oneAtATime.run(1, async () => {
    const { config, project, template, category, critical, channel, user } = templated;
    const message = await template.template.forLocale(user.locale, project.defaultLocale);
    const name = `${channel} ${message.locale}`;
    const known = shared.get(template)?.get(name);
    if (known !== undefined) return known;
    await between();
    const data: TemplateData = {
      user: userData(user),
      data: template.data,
      project: projectData(project),
      get unsubscribe_url() {
        return critical ? null : unsubscribeUrl(config, project, { userId: user.id, category, channel });
      },
      get preferences_url() {
        return preferencesUrl(config, project, { userId: user.id, category });
      },
    };
    const rendered = await renderTexts('delivery', message, { channel, data });
    const prepared = { ...prepareRendered(channel, rendered), locale: message.locale };
    if (message.isForAll(channel))
      shared.set(template, (shared.get(template) ?? new Map()).set(name, prepared));
    return prepared;
  });
}

/** Prepares the texts that a template has rendered. */
export function prepareRendered(
  channel: string,
  { title, content, actionUrl, has }: RenderedTexts,
): Prepared {
  const texts = { title, content, actionUrl };
  if (channel !== 'email') return { ...texts, text: plainTextOn(channel, content) };
  const email = prepareEmail({ ...texts, actionUrl: has.actionUrl ? null : actionUrl });
  return { ...texts, email, has };
}

/**
 * A message to one target, rendered only when an integration can send it: a message that waits then takes no
 * memory.
 */
export interface Draft {
  channel: Provider['channel'];
  render(integration: OpenedIntegration): Message | Rejection;
}

/** Characters that the delivery's messages have in memory. */
export function weightOf({ texts }: DraftContent): number {
  return 'email' in texts
    ? texts.email.html.length + texts.email.text.length
    : texts.title.length + texts.text.length + (texts.content?.length ?? 0);
}

/** An e-mail to an address. */
export function emailDraft(content: DraftContent, email: string): Draft {
  return { channel: 'email', render: (integration) => renderEmail(content, email, integration) };
}

/** A text message to a number in international form. */
export function textDraft(content: DraftContent, to: string): Draft {
  return {
    channel: 'sms',
    render(integration) {
      const rendered = renderContent(content, integration);
      const url = receiptUrl(content.config, content.project, integration, rendered.reference);
      return { ...rendered, to, receiptUrl: url };
    },
  };
}

/** A message to a token's address; or without one to the integration's own destination. */
export function addressedDraft(content: DraftContent, address: MessageAddress | undefined): Draft {
  return {
    channel: content.channel as Draft['channel'],
    render(integration) {
      const to = address ?? delivering.get(integration.provider)?.ownAddress?.(integration.config as never);
      if (to === undefined) return NO_DESTINATION;
      return { ...renderContent(content, integration), ...to } as Message;
    },
  };
}

const NO_DESTINATION: Rejection = {
  kind: 'rejected',
  scope: 'message',
  code: 'no_destination',
  reason: 'neither the token nor the integration has a destination',
};

function renderEmail(content: DraftContent, email: string, integration: OpenedIntegration): EmailMessage {
  const { config, project, notificationId, broadcast, user, texts, nowMs } = content;
  if (!('email' in texts)) throw new Error('the texts of another channel');
  const { BRAND: brand } = config;
  const { title, content: body, actionUrl } = texts;
  const about = { userId: user.id, category: broadcast.category, channel: 'email' };
  const unsubscribe = broadcast.critical ? undefined : unsubscribeUrl(config, project, about);
  const delivery = { broadcastId: broadcast.id, userId: user.id, channel: 'email' } as const;
  const tracked = linksOf(config, project, content.tracking, delivery);
  const name = [user.first_name, user.last_name].filter(Boolean).join(' ');
  return {
    deliveryId: notificationId,
    reference: referenceOf(delivery),
    to: { email, ...(name === '' ? {} : { name }) },
    ...finishEmail(texts.email, {
      language: languageOf(content),
      sender: senderOf(project),
      unsubscribeUrl: texts.has?.unsubscribeUrl ? undefined : unsubscribe,
      preferencesUrl: texts.has?.preferencesUrl ? undefined : preferencesUrl(config, project, about),
      tracked,
    }),
    headers: emailHeaders({ notificationId, brand, unsubscribeUrl: unsubscribe }),
    critical: broadcast.critical,
    date: new Date(content.dueAtMs),
    notification: () =>
      notificationRecord(notificationId, broadcast, { title, content: body, actionUrl }, user),
    signing: { header: `X-${brand.toUpperCase()}-SIGNATURE`, keys: validKeys(project.apiSecrets, nowMs) },
    ...overrideFor(broadcast, integration),
  };
}

/** The language of the fixed texts of a delivery: that of the template's texts, if it has a template. */
function languageOf({ user, project, texts }: DraftContent): Language {
  return languageFor([texts.locale, user.locale, project.defaultLocale]);
}

/** What the messages of all other channels have in common. */
function renderContent(content: DraftContent, integration: OpenedIntegration): NotificationContent {
  const { notificationId, broadcast, user, texts } = content;
  if (!('text' in texts)) throw new Error('the texts of e-mail');
  const { title, content: body, actionUrl, text } = texts;
  const delivery = { broadcastId: broadcast.id, userId: user.id };
  const trackingUrl =
    content.channel === 'web_push'
      ? pushClickUrl(content.config, content.project, content.tracking, delivery)
      : undefined;
  return {
    deliveryId: notificationId,
    reference: referenceOf(delivery),
    notificationId,
    title,
    content: body,
    text,
    actionUrl,
    actionLabel: languageOf(content).texts.open,
    category: broadcast.category,
    topic: broadcast.topic,
    customAttributes: broadcast.message.custom_attributes ?? null,
    expiresAt: new Date(content.expiresAtMs),
    trackingUrl,
    ...overrideFor(broadcast, integration),
  };
}

/** What the broadcast overrides for the provider alone. */
function overrideFor(
  { overrides }: LoadedBroadcast,
  { provider }: OpenedIntegration,
): { override?: Override } {
  const all: Record<string, Override | undefined> = overrides.providers ?? {};
  const name = delivering.get(provider)?.overrideKey ?? '';
  const override = Object.hasOwn(all, name) ? all[name] : undefined;
  return override === undefined ? {} : { override };
}

/** A notification with its user, in the form of the API, with the texts of the channel. */
function notificationRecord(
  id: string,
  broadcast: LoadedBroadcast,
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
      locale: user.locale,
      customAttributes:
        user.custom_attributes === null
          ? null
          : (readJson(user.custom_attributes) as Record<string, unknown>),
      phoneNumbers: user.phone_numbers,
      createdAt: user.created_at,
      updatedAt: user.updated_at,
      lastSeenAt: user.last_seen_at,
      lastNotifiedAt: sentAt, // of this very notification
    },
  };
}

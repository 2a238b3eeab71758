/**
 * The contract of a provider: its name, its config, and a sender that returns an outcome for each message.
 * The delivery engine knows nothing else about a vendor.
 *
 * A provider consists of `config` (its routes, its form and its reference page are generated from it), a pure
 * `build` (message and config → the vendor's request), a pure `classify` (the vendor's response or the
 * transport's error → an outcome), and `connect`, which owns the sockets between the two.
 */

import type { KeyObject } from 'node:crypto';
import { type Static, type TObject, type TString, Type } from 'typebox';
import type { Clock } from '../lib/clock.ts';
import type { EgressGuard } from '../lib/egress.ts';
import { isRecord } from '../lib/members.ts';
import type { NamedHost } from '../lib/named-host.ts';
import type { Guide } from './shared/guide.ts';
import type { OriginSetting, Timeouts, Transport } from './shared/transport.ts';

/** Every channel that a notification can go out on. */
export type Channel = 'in_app' | 'email' | 'sms' | 'mobile_push' | 'web_push' | 'slack' | 'teams';

/**
 * The outcome of one send. A failure of the vendor, the network or the address is a value; a rejected promise
 * is a bug of the sender. `reason` is shown to the project in events and in `errors` of the broadcast, so it
 * never contains a credential. `code` is the vendor's own error code (`550 5.1.1`, `BadDeviceToken`).
 */
export type SendOutcome =
  /** The vendor has accepted the message. */
  | { kind: 'sent'; providerId?: string | undefined }
  /**
   * A temporary failure: retry. `ambiguous`: the vendor may have accepted the message already (the connection
   * broke after the request was written), which matters on channels where a duplicate costs money.
   * `retryAfterMs` is the delay that the vendor requests, or ours if the cause is known to last. `suspect:
   * 'config'`: if retries never succeed, the config is probably wrong (a host name that does not resolve).
   */
  | {
      kind: 'retry';
      reason: string;
      code?: string | undefined;
      retryAfterMs?: number | undefined;
      ambiguous: boolean;
      suspect?: 'config';
    }
  /**
   * A permanent failure. `message`: concerns this message only. `address`: this e-mail address or phone
   * number can never be reached; suppress it. `config`: the integration cannot send until someone repairs it;
   * stop its other sends and try the channel's next integration. Only for failures that no recipient can
   * cause. `suspect: 'config'`, with `message`: caused by a wrong setting or by a single recipient (a country
   * that is not enabled). The next integration is tried; this one stops only if it happens for one user after
   * another.
   */
  | {
      kind: 'rejected';
      scope: 'message' | 'address' | 'config';
      reason: string;
      code?: string | undefined;
      suspect?: 'config';
    }
  /**
   * The device or chat destination no longer exists: discard the token, or with `scope: 'installation'` every
   * token of its installation, unless it was saved again after `goneAt`. `suspect: 'config'`: a wrong setting
   * looks the same (a development token at the production gateway), so many of these in a row blame the
   * config.
   */
  | {
      kind: 'token_gone';
      scope: 'token' | 'installation';
      reason: string;
      code?: string | undefined;
      goneAt?: Date;
      suspect?: 'config';
    };

/** A permanent failure, found before or after the request to the vendor. */
export type Rejection = Extract<SendOutcome, { kind: 'rejected' }>;

/** Whether `build` returned a rejection instead of a request. */
export function isRejection(built: object): built is Rejection {
  return 'kind' in built && built.kind === 'rejected';
}

/** An e-mail for one recipient, rendered: the same for every e-mail provider. */
export type EmailMessage = {
  /**
   * The same for every retry. The Message-ID contains it, which is the only protection of e-mail against
   * duplicates.
   */
  deliveryId: string;
  /** What the vendor is to name in its receipts: 43 characters of base64url. */
  reference: string;
  to: { email: string; name?: string };
  subject: string;
  html: string;
  text: string;
  /**
   * List-Unsubscribe and similar headers from the renderer. The provider adds addresses, Date and Message-ID.
   */
  headers: Readonly<Record<string, string>>;
  /** When the delivery became due: the Date header, so that a retry sends an identical message. */
  date: Date;
  /** The category cannot be switched off: a vendor's own unsubscribe links and lists must not apply to it. */
  critical: boolean;
  /** Returns the notification. Computed on demand, because most providers send the rendered e-mail. */
  notification(): NotificationRecord;
  /** The header and keys of the signature with which the project's own mailer verifies the caller. */
  signing: { header: string; keys: readonly KeyObject[] };
  override?: Override;
};

/** A notification and its recipient, with the members of our API. */
export type NotificationRecord = {
  id: string;
  title: string;
  content: string | null;
  actionUrl: string | null;
  category: string | null;
  topic: string | null;
  customAttributes: Readonly<Record<string, unknown>> | null;
  overrides: Readonly<Record<string, unknown>> | null;
  updatedAt: Date;
  recipient: {
    id: string;
    externalId: string | null;
    email: string | null;
    firstName: string | null;
    lastName: string | null;
    locale: string | null;
    customAttributes: Readonly<Record<string, unknown>> | null;
    phoneNumbers: readonly string[];
    createdAt: Date;
    updatedAt: Date;
    lastSeenAt: Date | null;
    lastNotifiedAt: Date | null;
  };
};

/**
 * The broadcast's members for this provider only, merged into the vendor's payload (see shared/override.ts).
 */
export type Override = Readonly<Record<string, unknown>>;

/**
 * A notification for one user on any channel except e-mail. Each provider converts it to the vendor's format.
 */
export type NotificationContent = {
  /** Stable over retries. */
  deliveryId: string;
  /** What the vendor is to name in its receipts: 43 characters of base64url. */
  reference: string;
  /** The notification's id, as clients know it. */
  notificationId: string;
  title: string;
  /** The content as it was written (HTML or not); `text` is the same as plain text. */
  content: string | null;
  text: string;
  actionUrl: string | null;
  /** The label of a button that opens the URL, in the language of the user. */
  actionLabel: string;
  category: string | null;
  topic: string | null;
  customAttributes: Readonly<Record<string, unknown>> | null;
  /** Not sent after this. */
  expiresAt: Date;
  /** Clients without a token report a click with a POST to this URL. */
  trackingUrl?: string | undefined;
  override?: Override;
};

/** A text message to a phone number in international format: `+15005550001`. */
export type SmsMessage = NotificationContent & {
  to: string;
  /** The URL for delivery-status callbacks about this message, for vendors that accept one per message. */
  receiptUrl?: string | undefined;
};

/** A push to one device. `badge` is counted when the push is sent. */
export type PushMessage = NotificationContent & {
  token: { deviceToken: string; appId?: string | undefined; installationId?: string | undefined };
  badge: { unread: number; unseen: number };
};

/** A push to the subscription of one browser. */
export type WebPushMessage = NotificationContent & {
  endpoint: string;
  keys: { auth: string; p256dh: string };
};

/**
 * A message to a channel of a workspace, through an incoming webhook or with the access token of an
 * installation.
 */
export type SlackMessage = NotificationContent & {
  to: { webhookUrl: string } | { channelId: string; accessToken: string };
};

/** A message to a channel of Teams, through its webhook. */
export type TeamsMessage = NotificationContent & { webhookUrl: string };

/** The message type of each channel. */
export type MessageOf = {
  email: EmailMessage;
  sms: SmsMessage;
  mobile_push: PushMessage;
  web_push: WebPushMessage;
  slack: SlackMessage;
  teams: TeamsMessage;
};

/** A message on any channel. */
export type Message = MessageOf[keyof MessageOf];

/** The members of a message that contain its destination, on channels that send to tokens. */
export type MessageAddress = Readonly<Record<string, unknown>>;

/** The destination of a token. */
export type TokenTarget = {
  /** Undefined for the integration's own destination (`ownAddress`). */
  address?: MessageAddress;
  /** The installation whose access token is required. `withAccess` returns the address for it. */
  installation?: { id: string; withAccess(accessToken: string): MessageAddress };
  /**
   * Integrations with this `app_id` are tried first, because the keys of others may not be valid for the
   * token.
   */
  appId?: string | undefined;
  /** Every integration sends to the same destination, so failover cannot help. */
  isFixed?: boolean;
  /** Texts that identify the recipient and must not appear in events. */
  secrets: readonly string[];
};

/** The members of a token, as its route has validated them. */
export type TokenMembers = Readonly<Record<string, unknown>>;

/** The tokens of an integration: their routes, and how they are stored. */
export type TokenCollection<Token = TokenMembers> = {
  /** The value of `tokens.channel`, unique per integration. */
  collection: string;
  /** The path in `/channels/<path>/tokens`, if it differs from `collection`. May contain `<brand>`. */
  path?: string;
  /**
   * A device has one user at a time, the user who saved it last. Shared tokens (of chats) may have several
   * users.
   */
  kind: 'device' | 'shared';
  /** The schemas of the request that saves a token, of its response, and of the record. */
  save: TObject;
  saved: TObject;
  token: TObject;
  /** The members that name a host to send to. */
  hosts?: readonly NamedHost[];
  /** Ids may be derived from the token. Saving rejects unknown headers, cookies and parameters. */
  hasPublicIds?: boolean;
  /** What saving a token again does, if it differs from other devices or shared tokens. */
  savedAgain?: string;
  /** Returns the identity of a token: two tokens with the same identity are the same token. */
  identity(token: Token): TokenIdentity;
  /** Whether the lists of v2 show a token. v1 accepts some that v2 rejects. */
  isShown?(token: Token): boolean;
  /** Returns the members to store and return, nullable ones as `null`. By default all members. */
  stored?(token: Token): TokenMembers;
};

/** The identity of a token: a text, or the public id of tokens that derive their own. */
export type TokenIdentity = { text: string } | { publicId: string };

/** Tokens that messages are sent to. */
export type TargetedTokens<Token = TokenMembers> = TokenCollection<Token> & {
  /** Pure. */
  target(token: Token): TokenTarget;
};

/** A live connection to one vendor with one config, shared by all messages of an integration. */
export type Sender<Message> = {
  /** The useful number of sends in flight; more would only wait inside. */
  readonly concurrency: number;
  /** Sends one message. Never rejects, and always ends, because each wait inside it has a limit. */
  send(message: Message): Promise<SendOutcome>;
  /**
   * Closes the connections. Sends in flight have `graceMs` (10 s by default) to finish; these and later ones
   * resolve with a `retry`.
   */
  close(options?: { graceMs?: number }): Promise<void>;
};

/** The dependencies of a sender. */
export type SenderDeps = {
  egress: EgressGuard;
  clock: Clock;
  transport: Transport;
  timeouts?: Partial<Timeouts>;
  /**
   * The contact for vendors in case of problems: an `https:` or `mailto:` address of the server's operator.
   */
  contact?: string;
};

/** The members of every integration, including those that send nothing (the inbox widget). */
export type Integration<Schema extends TObject = TObject> = {
  /** The key in the database, and the path segment of its routes: `/integrations/<name>`. */
  name: string;
  /** The name for people: `Amazon SES`. */
  title: string;
  /** The path segment if it contains the brand name, written as `<brand>`. */
  wireName?: string;
  /** The channel that it delivers on; undefined for integrations that only receive events. */
  channel?: Channel;
  /** The vendor's own documentation. */
  docs: string;
  /** The vendor's origins, by the setting that replaces each. */
  origins?: Readonly<Record<OriginSetting, string>>;
  /** The JSON Schema of the config. `description` is the help text of each field. */
  config: Schema;
  /**
   * The members of the config that name a host to connect to. A private host is rejected when the config is
   * saved.
   */
  hosts?: readonly NamedHost[];
  /** Returns the config to store and return, if it differs from the request. */
  complete?(config: Static<Schema>): Static<Schema>;
  /**
   * Verifies the config as far as possible without costs and without sending: first the keys themselves, then
   * with the vendor. Undefined if nothing can be verified. Never rejects, and ends within the transport's
   * timeouts.
   */
  verify?(config: Static<Schema>, deps: VerifyDeps): Promise<Finding[]>;
  /** The tokens that users save for this integration. */
  tokens?: TokenCollection;
  /** Reads the vendor's webhooks, if it has any. */
  receives?: Receiver<Static<Schema>>;
  /** Reads the vendor's delivery-status webhooks, if it sends any. */
  receipts?: ReceiptReader<Static<Schema>>;
  /** Reads delivery-status webhooks for an app that belongs to the server, not to a project. */
  serverReceipts?: ServerReceipts;
  /** Fetches delivery statuses from a vendor that sends no webhooks for them. */
  polls?: ReceiptPoll<Static<Schema>>;
};

/** Reads a vendor's webhooks. Pure. */
export type Receiver<Config> = {
  /** Whether the request has a valid signature for the config's secret. Compares in constant time. */
  isSigned(request: ReceivedRequest, config: Config): boolean;
  /** What a signed request says; undefined when it cannot be read. */
  read(request: ReceivedRequest): ReceivedEvent | undefined;
  /** A sentence for the description of the route in OpenAPI. */
  note?: string;
  /**
   * The largest body, if the vendor sends more than an event may have: then lists and texts of the payload
   * are cut.
   */
  maxBytes?: number;
};
export type ReceivedRequest = {
  /** Names are in lower case. */
  headers: Readonly<Record<string, string | string[] | undefined>>;
  /** The unmodified bytes of the body. */
  body: Buffer;
  nowMs: number;
};
export type ReceivedEvent = {
  /** The vendor's name for what happened. */
  event: string;
  /** The same for every delivery of one event. */
  deliveryId: string;
  /**
   * The signature, if the vendor signs neither the delivery id nor a time. It identifies a replay under
   * another id.
   */
  signature?: string;
  payload: Record<string, unknown>;
};

/**
 * The delivery statuses of a message that the vendor accepted. If a message has several, the first in this
 * list counts.
 */
export const RECEIPTS = ['complained', 'bounced', 'dropped', 'delivered'] as const;
export type ReceiptKind = (typeof RECEIPTS)[number];

/** A vendor's report on one message. */
export type Receipt = {
  /** `unsubscribed`: the recipient unsubscribed from messages like this one. */
  kind: ReceiptKind | 'unsubscribed';
  /** The `reference` of the message; undefined for messages that this server did not send. */
  reference?: string | undefined;
  at: Date;
  /** The vendor's error code, and its message. */
  code?: string | undefined;
  reason?: string | undefined;
  /** The e-mail address or phone number to suppress, and why. */
  suppress?: { address: string; reason: 'rejected' | 'bounced' | 'complained' | 'unsubscribed' } | undefined;
};

/** An installation of a chat app, or one of its channels, that has not existed since `goneAt`. */
export type GoneChat = {
  installationId: string;
  channelId?: string;
  code: string;
  reason: string;
  goneAt: Date;
};

/** The content of one delivery-status webhook. */
export type Report = {
  receipts?: readonly Receipt[];
  gone?: readonly GoneChat[];
  /** A text to return to the vendor. */
  challenge?: string;
  /** A URL of the vendor; a request for it confirms the subscription. */
  confirmUrl?: string;
  /** A text that is valid for one request, if the signature does not cover the body. */
  once?: string;
};

/** A delivery-status request of a vendor. */
export type ReportRequest = ReceivedRequest & {
  /** The URL that the vendor called. */
  url: string;
  /** The reference in the URL, if the URL was created for one message (`receiptUrl`). */
  reference?: string | undefined;
  /** The certificate in PEM, from `certificateUrl`. */
  certificate?: string | undefined;
};

/** Reads a vendor's delivery-status webhooks. Pure. */
export type ReceiptReader<Config> = {
  /**
   * Returns the URL of the certificate that verifies the signature. It is on a host of the vendor, never on
   * another host that the request names.
   */
  certificateUrl?(request: ReportRequest, config: Config): string | undefined;
  /** The setting that replaces the origin of `certificateUrl` and `confirmUrl`. */
  originSetting?: OriginSetting;
  /** Whether the vendor signed this request recently, for the owner of this config. */
  isSigned(request: ReportRequest, config: Config): boolean;
  /** What a signed request says; undefined when it cannot be read. */
  read(request: ReportRequest): Report | undefined;
};

/** Reads a vendor's delivery-status webhooks for an app whose secrets are settings of the server. */
export type ServerReceipts = {
  summary: string;
  description: string;
  reader: ReceiptReader<Record<string, unknown>>;
  /** Returns the config for `reader`. */
  config(settings: Readonly<Record<string, unknown>>): Record<string, unknown>;
};

/** Fetches delivery statuses from a vendor, by the ids that it assigned to messages (`providerId`). */
export type ReceiptPoll<Config> = {
  /**
   * The delays of the polls, counted from sending. A status that the last poll does not return stays unknown.
   */
  afterMs: readonly number[];
  /** The maximum number of ids per request. */
  maxIds: number;
  /** Fetches the statuses. Never rejects, and ends within the transport's timeouts. */
  fetch(ids: readonly string[], config: Config, deps: { transport: Transport }): Promise<PolledReceipts>;
};

/** The statuses by id. An id without a status is not known yet. */
export type PolledReceipts =
  | { kind: 'received'; receipts: ReadonlyMap<string, PolledReceipt> }
  | { kind: 'failed'; reason: string; retryAfterMs?: number | undefined };
export type PolledReceipt = {
  kind: ReceiptKind;
  code?: string | undefined;
  reason?: string | undefined;
  /** The device no longer exists: discard its token. */
  tokenGone?: boolean;
};

/**
 * A reason why a config does not work or could not be verified: `problem` continues `Param '<field>' …`.
 * Secrets are removed later.
 */
export type Finding = { field: string; problem: string };

/** The dependencies of `verify`. */
export type VerifyDeps = { egress: EgressGuard; clock: Clock; transport: Transport };

/** At most `limit` sends in any window of `windowMs`. */
export type Rate = { limit: number; windowMs: number };

/** The vendor's rate limits, all of which apply. The engine enforces them. */
export type Rates<Message, Config> = {
  /** The limits of one integration. */
  integration?(config: Config): readonly Rate[];
  /** The limits of one destination: a channel of a workspace, the URL of a webhook. */
  destination?: { key(message: Message): string; rates: readonly Rate[] };
};

/** An integration that delivers on a channel. `Request` and `Reply` are the vendor's own shapes. */
export type Provider<
  C extends keyof MessageOf = keyof MessageOf,
  Schema extends TObject = TObject,
  Request = unknown,
  Reply = unknown,
> = Integration<Schema> & {
  channel: C;
  /** Returns the vendor's request for a message, or a `Rejection` if no request is needed. Pure. */
  build(message: MessageOf[C], config: Static<Schema>): Request;
  /** Returns the outcome of the vendor's reply or the transport's error. Pure. */
  classify(reply: Reply): SendOutcome;
  /** The member of a broadcast's `overrides.providers` that is merged into the payload. */
  overrideKey?: string;
  /** Loads the rest of the reference page. */
  guide(): Promise<{ guide: Guide<Reply> }>;
  /** Undefined if the vendor documents no limit. */
  rates?: Rates<MessageOf[C], Static<Schema>>;
  /** The tokens to send to, if it sends to tokens. */
  tokens?: TargetedTokens;
  /** Returns the config's destination for users without a token. Pure. */
  ownAddress?(config: Static<Schema>): MessageAddress | undefined;
  /**
   * Returns the host that receives the message, if the message determines it and not the config: a push
   * service, the host of a webhook, a workspace. Each has its own circuit breaker. Not a secret.
   */
  downstreamHost?(message: MessageOf[C]): string;
  /**
   * Creates a sender, which opens no socket before the first send. `config` was validated when it was saved.
   */
  connect(config: Static<Schema>, deps: SenderDeps): Sender<MessageOf[C]>;
};

/** A provider of any channel. */
export type AnyProvider = { [C in keyof MessageOf]: Provider<C> }[keyof MessageOf];

/**
 * The schema of a secret string in a config, which logs, events and pages mask (`format: password` in
 * OpenAPI).
 */
export function secret(options: {
  description: string;
  minLength?: number;
  maxLength?: number;
  pattern?: string;
}): TString {
  return Type.String({ ...options, format: 'password' });
}

/** Returns a copy of a config with every secret replaced by dots. */
export function maskSecrets<Schema extends TObject>(
  schema: Schema,
  config: Static<Schema>,
): Record<string, unknown> {
  const masked: Record<string, unknown> = {};
  for (const [key, value] of Object.entries(config as Record<string, unknown>)) {
    const field: unknown = schema.properties[key];
    masked[key] = isSecret(field)
      ? '••••••'
      : isObjectSchema(field) && isRecord(value)
        ? maskSecrets(field, value)
        : value;
  }
  return masked;
}

/** Returns every secret in a config. */
export function secretsOf(schema: TObject, config: Readonly<Record<string, unknown>>): string[] {
  return Object.entries(config).flatMap(([key, value]) => {
    const field: unknown = schema.properties[key];
    if (isObjectSchema(field) && isRecord(value)) return secretsOf(field, value);
    return isSecret(field) && typeof value === 'string' ? [value] : [];
  });
}

function isSecret(field: unknown): boolean {
  return isRecord(field) && field.format === 'password';
}

function isObjectSchema(field: unknown): field is TObject {
  return isRecord(field) && field.type === 'object' && isRecord(field.properties);
}

/**
 * The contract that every provider satisfies: what it is called, what it is configured with, and a sender
 * that returns an outcome for each message. The delivery engine knows nothing else of a vendor.
 *
 * A provider's file holds four things: `config` (its routes, its form and its reference page are made from
 * it), a pure `build` (message and config → the vendor's request), a pure `classify` (the vendor's response or
 * the transport's error → an outcome), and `connect`, which owns the sockets between the two.
 */
import type { KeyObject } from 'node:crypto';
import { type Static, type TObject, type TString, Type } from 'typebox';
import type { Clock } from '../lib/clock.ts';
import type { EgressGuard } from '../lib/egress.ts';
import type { NamedHost } from '../lib/named-host.ts';
import type { Guide } from './shared/guide.ts';
import type { OriginSetting, Timeouts, Transport } from './shared/transport.ts';

/** Every channel that a notification can go out on. */
export type Channel = 'in_app' | 'email' | 'sms' | 'mobile_push' | 'web_push' | 'slack' | 'teams';

/**
 * How one send ended. A failure of the vendor, the network or the address is a value; a sender that rejects
 * its promise has a bug. A `reason` is shown to the project in events and in `errors` of the broadcast, so it
 * never holds a credential; `code` is the vendor's own word for it (`550 5.1.1`, `BadDeviceToken`).
 */
export type SendOutcome =
  /** The vendor has taken the message. */
  | { kind: 'sent'; providerId?: string }
  /**
   * Nothing is wrong with the message: try again. `ambiguous` when the vendor may have taken it already (the
   * connection broke after the request was written), for channels where a repeat costs money. `retryAfterMs`
   * is the vendor's wish, or ours where the cause is known to last. `suspect: 'config'` says whom to blame if
   * it never works (a host name that does not resolve).
   */
  | {
      kind: 'retry';
      reason: string;
      code?: string;
      retryAfterMs?: number;
      ambiguous: boolean;
      suspect?: 'config';
    }
  /**
   * Trying again cannot help. `message`: this message only. `address`: nothing will ever reach this e-mail
   * address or phone number, suppress it. `config`: nothing will leave by this integration until someone
   * repairs it, so stop its other sends and try the channel's next integration. Only for what no recipient
   * can cause. `suspect: 'config'`, beside `message`: a wrong setting causes it, but a single recipient can
   * as well (a country that is not enabled). The next integration is tried; this one stops only when one user
   * after another meets it.
   */
  | {
      kind: 'rejected';
      scope: 'message' | 'address' | 'config';
      reason: string;
      code?: string;
      suspect?: 'config';
    }
  /**
   * The device or chat destination is gone: discard the token, or with `scope: 'installation'` every token of
   * its installation. Not when the token was saved again after `goneAt`. `suspect: 'config'` when a wrong
   * setting looks the same (a development token at the production gateway): many of these in a row blame the
   * config.
   */
  | {
      kind: 'token_gone';
      scope: 'token' | 'installation';
      reason: string;
      code?: string;
      goneAt?: Date;
      suspect?: 'config';
    };

/** A message that is not worth sending, or a vendor that will not take it. */
export type Rejection = Extract<SendOutcome, { kind: 'rejected' }>;

/** Whether what was built is no request. */
export function isRejection(built: object): built is Rejection {
  return 'kind' in built && built.kind === 'rejected';
}

/** An e-mail for one recipient, rendered: the same for every e-mail provider. */
export type EmailMessage = {
  /** Stable over retries: the Message-ID is made of it, the only aid e-mail has against repeats. */
  deliveryId: string;
  /** What the vendor is to name in its receipts: 43 characters of base64url. */
  reference: string;
  to: { email: string; name?: string };
  subject: string;
  html: string;
  text: string;
  /**
   * List-Unsubscribe and the like, made by the renderer; addresses, Date and Message-ID are the provider's.
   */
  headers: Readonly<Record<string, string>>;
  /** When the delivery became due; the Date header, so that a repeat is byte for byte the same message. */
  date: Date;
  /** The category cannot be switched off: a vendor's own unsubscribe links and lists must not apply to it. */
  critical: boolean;
  /** Made when it is asked for: most providers send what was rendered. */
  notification(): NotificationRecord;
  /** By what a mailer of the project's own can tell who calls it. */
  signing: { header: string; keys: readonly KeyObject[] };
  override?: Override;
};

/** A notification and who gets it, as they stand in our own API. */
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
    customAttributes: Readonly<Record<string, unknown>> | null;
    phoneNumbers: readonly string[];
    createdAt: Date;
    updatedAt: Date;
    lastSeenAt: Date | null;
    lastNotifiedAt: Date | null;
  };
};

/**
 * What the broadcast says for this provider alone: merged into the vendor's own payload (see override.ts).
 */
export type Override = Readonly<Record<string, unknown>>;

/**
 * A notification for one user, as every channel but e-mail takes it. Each provider brings it into the
 * vendor's form.
 */
export type NotificationContent = {
  /** Stable over retries. */
  deliveryId: string;
  /** What the vendor is to name in its receipts: 43 characters of base64url. */
  reference: string;
  /** The notification's id, as clients know it. */
  notificationId: string;
  title: string;
  /** As it was written, HTML or not; and the same as plain text. */
  content: string | null;
  text: string;
  actionUrl: string | null;
  category: string | null;
  topic: string | null;
  customAttributes: Readonly<Record<string, unknown>> | null;
  /** Not sent after this. */
  expiresAt: Date;
  /** Clients without a token report a click with a POST to this address. */
  trackingUrl?: string;
  override?: Override;
};

/** A text message to a phone number in international form: `+15005550001`. */
export type SmsMessage = NotificationContent & {
  to: string;
  /** Where the vendor can report on this message, if it takes an address with each. */
  receiptUrl?: string;
};

/** A push to one device. The number on the app's icon is counted when it is sent. */
export type PushMessage = NotificationContent & {
  token: { deviceToken: string; appId?: string; installationId?: string };
  badge: { unread: number; unseen: number };
};

/** A push to one browser, by its subscription. */
export type WebPushMessage = NotificationContent & {
  endpoint: string;
  keys: { auth: string; p256dh: string };
};

/**
 * A message to a channel of a workspace: by the address of an incoming webhook, or with the token of an
 * installation.
 */
export type SlackMessage = NotificationContent & {
  to: { webhookUrl: string } | { channelId: string; accessToken: string };
};

/** A message to a channel of Teams, by the address of its webhook. */
export type TeamsMessage = NotificationContent & { webhookUrl: string };

/** What a sender takes on each channel. */
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

/** The members of a message that say where it goes, on the channels where tokens say it. */
export type MessageAddress = Readonly<Record<string, unknown>>;

/** How a token says where its messages go. */
export type TokenTarget = {
  /** Left out where the integration's own destination is meant (`ownAddress`). */
  address?: MessageAddress;
  /** An installation whose access token is needed: the address then is the one that `withAccess` returns. */
  installation?: { id: string; withAccess(accessToken: string): MessageAddress };
  /** Integrations with this `app_id` are tried first: the keys of others may not be valid for the token. */
  appId?: string;
  /** Every integration sends to the same place, so that failover cannot help. */
  isFixed?: boolean;
  /** Texts that identify the recipient and must not appear in events. */
  secrets: readonly string[];
};

/** The members of a token, as its route has validated them. */
export type TokenMembers = Readonly<Record<string, unknown>>;

/** The tokens that belong to an integration: their routes, and how they are stored. */
export type TokenCollection<Token = TokenMembers> = {
  /** As in `tokens.channel`. Each integration has its own. */
  collection: string;
  /** Part of the routes, `/channels/<path>/tokens`, if it is not `collection`: with `<brand>` in it. */
  path?: string;
  /**
   * A device has one user at a time: the one who saved it last. Shared tokens, of chats, may have several
   * users.
   */
  kind: 'device' | 'shared';
  /** The request that saves a token, the response to that, and its record. */
  save: TObject;
  saved: TObject;
  token: TObject;
  /** The members that name a host to send to. */
  hosts?: readonly NamedHost[];
  /** Ids may be made of the token; saving rejects unknown headers, cookies and parameters. */
  hasPublicIds?: boolean;
  /** The meaning of saving a token again, where it is not that of all devices or all shared tokens. */
  savedAgain?: string;
  /** What makes two tokens the same. */
  identity(token: Token): TokenIdentity;
  /** The members that are stored and returned, nullable ones as `null`; all of them if left out. */
  stored?(token: Token): TokenMembers;
};

/** A text, or the public id, for tokens that make their own. */
export type TokenIdentity = { text: string } | { publicId: string };

/** Tokens that messages are sent to. */
export type TargetedTokens<Token = TokenMembers> = TokenCollection<Token> & {
  /** Pure. */
  target(token: Token): TokenTarget;
};

/** A live connection to one vendor with one configuration, shared by all messages of an integration. */
export type Sender<Message> = {
  /** How many sends are worth having in flight at once; more only wait inside. */
  readonly concurrency: number;
  /** Sends one message. Never rejects, and always ends: each wait inside it has a limit. */
  send(message: Message): Promise<SendOutcome>;
  /**
   * Ends the connections. Sends under way have `graceMs` (10 s if not given) to finish; these and later ones
   * resolve with a `retry`.
   */
  close(options?: { graceMs?: number }): Promise<void>;
};

/** What a sender may use of the world. */
export type SenderDeps = {
  egress: EgressGuard;
  clock: Clock;
  transport: Transport;
  timeouts?: Partial<Timeouts>;
  /**
   * The contact for vendors in case of trouble: an `https:` or `mailto:` address of the server's operator.
   */
  contact?: string;
};

/** What every integration has, also the ones that send nothing themselves (the inbox widget). */
export type Integration<Schema extends TObject = TObject> = {
  /** What it is stored under, and the path segment of its routes: `/integrations/<name>`. */
  name: string;
  /** What people call it: `Amazon SES`. */
  title: string;
  /** The path segment where the brand word is part of it, written `<brand>`. */
  wireName?: string;
  /** What it delivers on; none for those that only take events in. */
  channel?: Channel;
  /** The vendor's own documentation. */
  docs: string;
  /** The vendor's origins, by the settings with which the operator replaces them. */
  origins?: Readonly<Record<OriginSetting, string>>;
  /** JSON Schema of the configuration, `description` being the help beside each field. */
  config: Schema;
  /**
   * The members of the config that name a host to connect to; a private one is rejected when the config is
   * saved.
   */
  hosts?: readonly NamedHost[];
  /** The config as it is stored and echoed, where that differs from what may be sent. */
  complete?(config: Static<Schema>): Static<Schema>;
  /**
   * Tries the config out, as far as that costs nothing and sends nothing: first what can be seen of keys
   * without asking, then what the vendor says. Not there where there is nothing to try. Never rejects, and
   * ends within the transport's timeouts.
   */
  verify?(config: Static<Schema>, deps: VerifyDeps): Promise<Finding[]>;
  /** The tokens that users save for it. */
  tokens?: TokenCollection;
  /** Reads the vendor's webhooks, if it has any. */
  receives?: Receiver<Static<Schema>>;
  /** Reads the vendor's reports on messages that it has accepted, if it sends any. */
  receipts?: ReceiptReader<Static<Schema>>;
  /** The same for an app that belongs to the server and not to a project. */
  serverReceipts?: ServerReceipts;
  /** How the vendor is asked for such reports, where it sends none. */
  polls?: ReceiptPoll<Static<Schema>>;
};

/** Reads webhooks of a vendor. All of it is pure. */
export type Receiver<Config> = {
  /** Whether the vendor has signed this request, with the config's secret. Compares in constant time. */
  isSigned(request: ReceivedRequest, config: Config): boolean;
  /** What a signed request says; undefined when it cannot be read. */
  read(request: ReceivedRequest): ReceivedEvent | undefined;
  /** A sentence for the description of its route. */
  note?: string;
};
export type ReceivedRequest = {
  /** By their names in lower case. */
  headers: Readonly<Record<string, string | string[] | undefined>>;
  /** Byte for byte as it came. */
  body: Buffer;
  nowMs: number;
};
export type ReceivedEvent = {
  /** The vendor's name for what happened. */
  event: string;
  /** The same for every delivery of one event. */
  deliveryId: string;
  /**
   * The signature, where the vendor signs neither the delivery's id nor a time: by it a replay under another
   * id is recognized.
   */
  signature?: string;
  payload: Record<string, unknown>;
};

/**
 * The delivery status of a message that the vendor has accepted. Of several reports on one message, the one
 * that comes first in this list counts.
 */
export const RECEIPTS = ['complained', 'bounced', 'dropped', 'delivered'] as const;
export type ReceiptKind = (typeof RECEIPTS)[number];

/** A vendor's report on one message. */
export type Receipt = {
  /** `unsubscribed`: its recipient wants no more like this one. */
  kind: ReceiptKind | 'unsubscribed';
  /** What the message carried as `reference`; not there on messages that are not ours. */
  reference?: string;
  at: Date;
  /** The vendor's own word for it, and its words. */
  code?: string;
  reason?: string;
  /** The e-mail address or phone number that nothing is to be sent to any more, and why. */
  suppress?: { address: string; reason: 'rejected' | 'bounced' | 'complained' | 'unsubscribed' };
};

/** An installation of a chat app, or one channel of it, that no longer exists since `goneAt`. */
export type GoneChat = {
  installationId: string;
  channelId?: string;
  code: string;
  reason: string;
  goneAt: Date;
};

/** All that one request of a vendor reports. */
export type Report = {
  receipts?: readonly Receipt[];
  gone?: readonly GoneChat[];
  /** A text that the vendor wants back. */
  challenge?: string;
  /** An address of the vendor's: asking for it says that its reports are wanted. */
  confirmUrl?: string;
  /** Where the signature is not over the body: a text that is good for one request. */
  once?: string;
};

/** A request by which a vendor reports. */
export type ReportRequest = ReceivedRequest & {
  /** As the vendor has called it. */
  url: string;
  /**
   * The reference in the address, where the address is one that we have made for one message (`receiptUrl`).
   */
  reference?: string;
  /** In PEM, from the address that `certificateUrl` named. */
  certificate?: string;
};

/** Reads a vendor's reports on messages. All of it is pure. */
export type ReceiptReader<Config> = {
  /**
   * The address of the certificate that verifies the signature: on a host of the vendor's, never any other
   * that the request names.
   */
  certificateUrl?(request: ReportRequest, config: Config): string | undefined;
  /** The setting that replaces the origin of `certificateUrl` and `confirmUrl`. */
  originSetting?: OriginSetting;
  /** Whether the vendor has signed this request, lately, for the owner of this config. */
  isSigned(request: ReportRequest, config: Config): boolean;
  /** What a signed request says; undefined when it cannot be read. */
  read(request: ReportRequest): Report | undefined;
};

/** Reads a vendor's reports about an app whose secrets are settings of the server. */
export type ServerReceipts = {
  summary: string;
  description: string;
  reader: ReceiptReader<Record<string, unknown>>;
  /** The config for `reader`. */
  config(settings: Readonly<Record<string, unknown>>): Record<string, unknown>;
};

/** Asks a vendor for receipts, by the ids that it gave to messages (`providerId`). */
export type ReceiptPoll<Config> = {
  /**
   * How long after sending it is asked the first time, and how often again; what is not known then never will
   * be.
   */
  afterMs: readonly number[];
  /** In one request. */
  maxIds: number;
  /** Never rejects, and ends within the transport's timeouts. */
  fetch(ids: readonly string[], config: Config, deps: { transport: Transport }): Promise<PolledReceipts>;
};

/** By the ids that were asked for; one that is not there is not known yet. */
export type PolledReceipts =
  | { kind: 'received'; receipts: ReadonlyMap<string, PolledReceipt> }
  | { kind: 'failed'; reason: string; retryAfterMs?: number };
export type PolledReceipt = {
  kind: ReceiptKind;
  code?: string;
  reason?: string;
  /** The device is gone: its token is to be discarded. */
  tokenGone?: boolean;
};

/**
 * Why a config will not work, or that it could not be tried: `problem` continues `Param '<field>' …`. Secrets
 * are taken out later.
 */
export type Finding = { field: string; problem: string };

/** What trying a config out may use of the world. */
export type VerifyDeps = { egress: EgressGuard; clock: Clock; transport: Transport };

/** At most `limit` in any window of `windowMs`. */
export type Rate = { limit: number; windowMs: number };

/** The vendor's rate limits. All of them hold; the engine keeps them. */
export type Rates<Message, Config> = {
  /** Over one integration. */
  integration?(config: Config): readonly Rate[];
  /** To one destination of many: a channel of a workspace, the address of a webhook. */
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
  /** Pure: the request that carries this message; or a `Rejection`, where the vendor need not be asked. */
  build(message: MessageOf[C], config: Static<Schema>): Request;
  /** Pure: what the vendor's reply, or the transport's error, means. */
  classify(reply: Reply): SendOutcome;
  /** The member of a broadcast's `overrides.providers` that is merged into its payload. */
  overrideKey?: string;
  /** The rest of its reference page. */
  guide(): Promise<{ guide: Guide<Reply> }>;
  /** Left out where the vendor names no rate. */
  rates?: Rates<MessageOf[C], Static<Schema>>;
  /** The tokens that it sends to, where it sends to tokens. */
  tokens?: TargetedTokens;
  /** The destination in the config for users who have no token. Pure. */
  ownAddress?(config: Static<Schema>): MessageAddress | undefined;
  /**
   * Who receives the message, where the message determines it and not the config: a push service, the host of
   * a webhook, a workspace. Each has its own circuit breaker. Not a secret.
   */
  downstreamHost?(message: MessageOf[C]): string;
  /**
   * Opens no socket before the first send. `config` has been validated against the schema when it was saved.
   */
  connect(config: Static<Schema>, deps: SenderDeps): Sender<MessageOf[C]>;
};

/** A provider of any channel; `channel` says of which. */
export type AnyProvider = { [C in keyof MessageOf]: Provider<C> }[keyof MessageOf];

/**
 * A string of a config that logs, events and pages mask; `format: password` says so in OpenAPI's own word.
 */
export function secret(options: {
  description: string;
  minLength?: number;
  maxLength?: number;
  pattern?: string;
}): TString {
  return Type.String({ ...options, format: 'password' });
}

/** A copy of a config with every secret in it replaced by dots, for eyes that need not see them. */
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

/** Every secret that a config holds. */
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

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

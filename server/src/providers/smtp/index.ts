/**
 * E-mail through any SMTP server. https://www.rfc-editor.org/rfc/rfc5321
 *
 * nodemailer's pool speaks the protocol. We build the message, open the sockets (through the egress guard)
 * and classify the result. The pool is used without nodemailer's composer: a message is one buffer, and we
 * observe how far it was read. A connection that breaks after all of it was read leaves the outcome
 * ambiguous.
 */
import { createRequire } from 'node:module';
import type { Socket } from 'node:net';
import { Readable } from 'node:stream';
import { domainToASCII } from 'node:url';
import type SMTPConnection from 'nodemailer/lib/smtp-connection';
import type SMTPPool from 'nodemailer/lib/smtp-pool';
import { type Static, Type } from 'typebox';
import { described, oneOf } from '../../contract/common.ts';
import type { EgressGuard } from '../../lib/egress.ts';
import { hostMember } from '../../lib/named-host.ts';
import type {
  EmailMessage,
  Finding,
  Provider,
  Sender,
  SenderDeps,
  SendOutcome,
  VerifyDeps,
} from '../provider.ts';
import { secret } from '../provider.ts';
import { NO_ADDRESS } from '../shared/mailbox.ts';
import { maxPerSecond, rateOf } from '../shared/max-per-second.ts';
import { buildMime, isMailbox, withAsciiDomain } from '../shared/mime.ts';
import type { Timeouts } from '../shared/transport.ts';
import { UnreachableHosts } from '../shared/unreachable-hosts.ts';
import { ConnectionLimit } from './connection-limit.ts';
import {
  classify,
  hasServerReply,
  hasTimedOut,
  hasTooManyConnections,
  isTlsFailure,
  type SmtpError,
  type SmtpReply,
} from './reply.ts';

// nodemailer is loaded when it is first used, because it takes 4 MB.
const require = createRequire(import.meta.url);

const SmtpMailbox = Type.Object(
  {
    email: Type.String({ format: 'email', description: 'E-mail address' }),
    name: Type.Optional(Type.String({ description: 'Name shown beside the address' })),
  },
  { title: 'SmtpMailbox', additionalProperties: false },
);
const mailbox = (description: string) => described(SmtpMailbox, description);

// An ASCII host name or an IP address. The alternatives do not overlap, so matching takes linear time.
const HOST = '^([A-Za-z0-9_]+((\\.|-+)[A-Za-z0-9_]+)*\\.?|[0-9A-Fa-f]*:[0-9A-Fa-f:.]+)$';

const config = Type.Object(
  {
    host: Type.String({
      maxLength: 253,
      pattern: HOST,
      'x-problem': 'must be a host name or an IP address, without a port',
      description: 'Host name of the mail server; certificates must be issued for it',
    }),
    port: Type.Integer({
      minimum: 1,
      maximum: 65535,
      description: '587 for STARTTLS, 465 for TLS, 25 between servers',
    }),
    username: Type.String({ description: 'Account to log in with; empty to send without logging in' }),
    password: secret({ description: 'Password of the account' }),
    from: mailbox('Sender of every e-mail'),
    reply_to: Type.Optional(mailbox('Reply-To mailbox, if replies do not go to the sender')),
    security: Type.Optional(
      oneOf(['none', 'ssl', 'starttls'], {
        description:
          'ssl: TLS from the start. starttls: send only if the server supports STARTTLS. ' +
          'none: no encryption. Default: TLS on port 465, on other ports STARTTLS if the server offers it',
      }),
    ),
    max_per_second: maxPerSecond,
  },
  {
    additionalProperties: false,
    examples: [
      {
        host: 'smtp.example.com',
        port: 587,
        username: 'apikey',
        password: 'secret',
        from: { email: 'hello@example.com', name: 'Example' },
        security: 'starttls',
      },
    ],
  },
);
type Config = Static<typeof config>;

/** One e-mail in the form in which the server receives it. */
type SmtpRequest = {
  envelope: { from: string; to: string };
  messageId: string;
  raw: Buffer;
};

export const smtp: Provider<'email', typeof config, SmtpRequest, SmtpReply> = {
  name: 'smtp',
  title: 'SMTP',
  channel: 'email',
  docs: 'https://www.rfc-editor.org/rfc/rfc5321',
  guide: () => import('./guide.ts'),
  config,
  hosts: [hostMember('host')],
  build,
  classify,
  rates: { integration: rateOf },
  connect,
  verify,
};

/** Connections per integration: enough to hide the round trips, few enough for the server. */
const MAX_CONNECTIONS = 8;
/**
 * Of a mailbox at Microsoft. With more, it rejects the messages of all connections.
 * https://learn.microsoft.com/exchange/troubleshoot/send-emails/smtp-submission-improvements
 */
const MAX_CONNECTIONS_AT_MICROSOFT = 3;
const MICROSOFT = /(?:^|\.)(?:office365\.(?:com|us)|partner\.outlook\.cn)\.?$/i;
/** Messages per connection, because many servers limit them. Each reconnect costs the pool 100 ms. */
const MAX_MESSAGES = 500;

const DEFAULT_TIMEOUTS: Timeouts = {
  connectMs: 10_000,
  replyMs: 60_000,
  idleMs: 30_000,
};

function connect(config: Config, { egress, clock, timeouts }: SenderDeps): Sender<EmailMessage> {
  const limits = { ...DEFAULT_TIMEOUTS, ...timeouts };
  const most = MICROSOFT.test(config.host) ? MAX_CONNECTIONS_AT_MICROSOFT : MAX_CONNECTIONS;
  const connections = new ConnectionLimit(most, () => clock.now());
  // The current one is the last. Others end with the messages that they send.
  const pools = new Set([openPool(config, limits, egress)]);
  const inFlight = new Set<Promise<SendOutcome>>();
  let repliedAtMs = Number.NEGATIVE_INFINITY;
  let closed = false;
  let ended = false;

  function send(message: EmailMessage): Promise<SendOutcome> {
    if (closed) return Promise.resolve(CLOSING);
    if (!isMailbox(message.to.email)) return Promise.resolve(NO_ADDRESS);
    const sending = sendInTurn(message);
    inFlight.add(sending);
    return sending.finally(() => inFlight.delete(sending));
  }

  async function sendInTurn(message: EmailMessage): Promise<SendOutcome> {
    const allowed = await connections.acquire();
    if (allowed === undefined) return UNRESPONSIVE;
    try {
      const pool = [...pools].at(-1);
      if (ended || pool === undefined) return CLOSING;
      const sentAtMs = performance.now();
      const reply = await exchange(pool, build(message, config), limits);
      if (hasServerReply(reply)) repliedAtMs = performance.now();
      else if (hasTimedOut(reply) && repliedAtMs < sentAtMs) connections.rejectWaiting();
      if (hasTooManyConnections(reply) && connections.lower(allowed)) replacePool();
      return classify(withoutPassword(reply, config));
    } finally {
      connections.release();
    }
  }

  /** Closes the connections that are not used: the server counts them, too. */
  function replacePool(): void {
    const former = [...pools];
    for (const pool of former) pool.close();
    pools.add(openPool(config, limits, egress));
    void Promise.allSettled(inFlight).then(() => {
      for (const pool of former) pools.delete(pool);
    });
  }

  async function close({ graceMs = 10_000 }: { graceMs?: number } = {}): Promise<void> {
    closed = true;
    const timer = setTimeout(() => {
      ended = true;
      for (const pool of pools) pool.close({ force: true });
    }, graceMs);
    await Promise.all(inFlight);
    clearTimeout(timer);
    for (const pool of pools) pool.close();
  }

  return { concurrency: most * 2, send, close };
}

const CLOSING: SendOutcome = {
  kind: 'retry',
  reason: 'the connection is being closed',
  ambiguous: false,
};

/**
 * Of messages that waited for a connection while the server responded to none. Otherwise each would take as
 * long as the one before.
 */
const UNRESPONSIVE: SendOutcome = {
  kind: 'retry',
  reason: 'the mail server did not respond to an earlier message in time',
  code: 'ETIMEDOUT',
  ambiguous: false,
};

/** Verifies the config: connects, starts TLS and logs in as for an e-mail, then quits. */
async function verify(config: Config, { egress, transport }: VerifyDeps): Promise<Finding[]> {
  const limits = transport.timeouts;
  let socket: Socket | undefined;
  const deadline = setTimeout(() => socket?.destroy(), 4 * limits.connectMs);
  try {
    socket = await egress.connect({ host: config.host, port: config.port, timeoutMs: limits.connectMs });
    return await logIn(config, limits, socket);
  } catch (error) {
    const reply = withoutPassword({ error: error as SmtpError, written: false }, config);
    const outcome = classify(reply);
    const reason = 'reason' in outcome ? outcome.reason : '';
    const problem = outcome.kind === 'retry' ? 'could not be verified' : 'does not work';
    return [{ field: fieldOf(error as SmtpError), problem: `${problem}: ${reason}` }];
  } finally {
    clearTimeout(deadline);
    socket?.destroySoon();
  }
}

/**
 * Resolves with findings about the login; rejects with the error of the server or the connection. Does not
 * use nodemailer's pool, which accepts a server that offers no login.
 */
function logIn(config: Config, limits: Timeouts, socket: Socket): Promise<Finding[]> {
  const Connection: typeof SMTPConnection = require('nodemailer/lib/smtp-connection');
  const connection = new Connection({ ...poolOptions(config, limits), connection: socket });
  const { username: user, password: pass } = config;
  return new Promise<Finding[]>((resolve, reject) => {
    const quit = (findings: Finding[]) => {
      connection.quit();
      resolve(findings);
    };
    connection.on('error', reject);
    connection.once('end', () => reject(new Error('the mail server closed the connection')));
    connection.connect((error) => {
      if (error) reject(error);
      else if (user === '') quit([]);
      else if (!connection.allowsAuth) quit([noLogin(connection)]);
      else
        connection.login({ credentials: { user, pass } }, (error) => {
          if (error) reject(error);
          else quit([]);
        });
    });
  });
}

function noLogin({ secure }: { secure: boolean }): Finding {
  const where = secure ? '' : ' without encryption: set security to starttls or ssl';
  return {
    field: 'username',
    problem: `cannot be used: the mail server offers no login${where}; or leave it empty`,
  };
}

function fieldOf(error: SmtpError): keyof Config {
  if (error.code === 'EAUTH') return 'password';
  return error.code === 'ETLS' || isTlsFailure(error) ? 'security' : 'host';
}

function openPool(config: Config, limits: Timeouts, egress: EgressGuard): SMTPPool {
  const Pool: typeof SMTPPool = require('nodemailer/lib/smtp-pool');
  const { host, port } = config;
  // Messages beyond the pool's connections would wait for the first to fail, and then as long again.
  const unreachable = new UnreachableHosts();
  return new Pool({
    ...poolOptions(config, limits),
    getSocket: (_options, callback) => {
      const connecting = unreachable.connect(host, () =>
        egress.connect({ host, port, timeoutMs: limits.connectMs }),
      );
      connecting.then(
        (connection) => callback(null, { connection }),
        (error: Error) => callback(error, undefined),
      );
    },
  });
}

function poolOptions(
  { host, port, username, password, security, from }: Config,
  limits: Timeouts,
): SMTPPool.Options {
  const secure = security === 'ssl' || (security === undefined && port === 465);
  const client = domainOf(from);
  return {
    host,
    port,
    // The name in EHLO. The default is that of this machine, or `[127.0.0.1]` in a container, with which
    // Google's servers end the connection.
    ...(client === '' ? {} : { name: client }),
    secure,
    requireTLS: security === 'starttls',
    ignoreTLS: security === 'none',
    // Explicit, so that no environment variable (NODE_TLS_REJECT_UNAUTHORIZED) disables verification.
    tls: { rejectUnauthorized: true, minVersion: 'TLSv1.2' },
    ...(username === '' ? {} : { auth: { user: username, pass: password } }),
    maxConnections: MAX_CONNECTIONS,
    maxMessages: MAX_MESSAGES,
    // A message on a connection that the server has just closed moves to another connection at once. Longer
    // failures are left to the queue, which survives a restart.
    maxRequeues: 1,
    idleTimeout: limits.idleMs,
    connectionTimeout: limits.connectMs * 2, // DNS, TCP, greeting and TLS together
    greetingTimeout: limits.connectMs,
    socketTimeout: limits.replyMs,
    socketCloseTimeout: 1_000,
    logger: false,
  };
}

/** Sends one message through the pool. Resolves with the reply, at the latest at the deadline. */
function exchange(
  pool: SMTPPool,
  { envelope, messageId, raw }: SmtpRequest,
  limits: Timeouts,
): Promise<SmtpReply> {
  const aborter = new AbortController();
  // Each wait has its own limit, but a server can extend it by sending its reply byte by byte.
  const deadline = setTimeout(() => aborter.abort(), 2 * limits.connectMs + 5 * limits.replyMs);
  let written = false;
  // The members of nodemailer's MimeNode that its pool uses.
  const message = {
    getHeader: () => messageId,
    messageId: () => messageId,
    getEnvelope: () => ({ from: envelope.from, to: [envelope.to], size: raw.length }),
    createReadStream: () =>
      Readable.from(chunks(raw), { objectMode: false }).once('end', () => (written = true)),
  };
  const mail = {
    message,
    data: { signal: aborter.signal },
  } as unknown as Parameters<SMTPPool['send']>[0];
  return new Promise((resolve) => {
    pool.send(mail, (error, info) => {
      clearTimeout(deadline);
      resolve(error === null ? { response: info?.response ?? '' } : { error: error as SmtpError, written });
    });
  });
}

/**
 * Small enough that the stream ends when the socket has accepted nearly the whole message, not when it is
 * offered to it.
 */
const CHUNK_BYTES = 64 * 1024;

function chunks(raw: Buffer): Buffer | Iterable<Buffer> {
  if (raw.length <= CHUNK_BYTES) return raw;
  return Array.from({ length: Math.ceil(raw.length / CHUNK_BYTES) }, (_, n) =>
    raw.subarray(n * CHUNK_BYTES, (n + 1) * CHUNK_BYTES),
  );
}

function build(message: EmailMessage, { from, reply_to: replyTo }: Config): SmtpRequest {
  const sender = withAsciiDomain(from.email);
  const recipient = withAsciiDomain(message.to.email);
  const messageId = `<${message.deliveryId}@${domainOf(from)}>`;
  return {
    envelope: { from: sender, to: recipient },
    messageId,
    raw: buildMime({
      messageId,
      boundary: message.deliveryId,
      date: message.date,
      from,
      to: message.to,
      ...(replyTo === undefined ? {} : { replyTo }),
      subject: message.subject,
      headers: message.headers,
      text: message.text,
      html: message.html,
    }),
  };
}

/** Returns the domain of a mailbox in ASCII; empty if it is not valid. */
function domainOf({ email }: { email: string }): string {
  return domainToASCII(email.slice(email.lastIndexOf('@') + 1));
}

/**
 * Redacts the password, which a server may echo. Runs before any text is shortened, on every form that a
 * server sees: plain, and as encoded by AUTH LOGIN and AUTH PLAIN.
 */
function withoutPassword(reply: SmtpReply, { username, password }: Config): SmtpReply {
  if (password.length < 4) return reply; // shorter ones may be parts of words
  const forms = [base64(`\0${username}\0${password}`), base64(password), password];
  const redact = (text: string) => forms.reduce((left, form) => left.replaceAll(form, '••••••'), text);
  if ('response' in reply) return { response: redact(reply.response) };
  const { error, written } = reply;
  const hidden = { ...error, message: redact(error.message) };
  if (error.response !== undefined) hidden.response = redact(error.response);
  return { error: hidden, written };
}

/** Without padding, which a server may omit when it echoes the text. */
function base64(text: string): string {
  return Buffer.from(text).toString('base64').replace(/=+$/, '');
}

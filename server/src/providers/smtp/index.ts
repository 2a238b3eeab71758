/**
 * E-mail by any SMTP server. https://www.rfc-editor.org/rfc/rfc5321
 *
 * nodemailer's pool speaks the protocol; we build the message, open the sockets (through the egress guard)
 * and say what each ending means. The pool is used without nodemailer's composer: a message is one buffer
 * that we watch being read, which is how we know whether a connection that broke had been given all of it.
 */
import type { Socket } from 'node:net';
import { Readable } from 'node:stream';
import { domainToASCII } from 'node:url';
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
import { nodemailer } from './nodemailer.ts';
import { classify, isTlsFailure, type SmtpError, type SmtpReply } from './reply.ts';

const SmtpMailbox = Type.Object(
  {
    email: Type.String({ format: 'email', description: 'E-mail address' }),
    name: Type.Optional(Type.String({ description: 'Name shown beside the address' })),
  },
  { title: 'SmtpMailbox', additionalProperties: false },
);
const mailbox = (description: string) => described(SmtpMailbox, description);

// A name in ASCII, or an IP address. No part can begin in two places, so matching is linear.
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
    reply_to: Type.Optional(mailbox('Where replies go, if not to the sender')),
    security: Type.Optional(
      oneOf(['none', 'ssl', 'starttls'], {
        description:
          'ssl: TLS from the start. starttls: refuse to send unless the server encrypts. none: never encrypt. ' +
          'Left out: TLS on port 465, elsewhere STARTTLS if the server offers it',
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

/** One e-mail as the server is given it. */
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

/**
 * Connections of one integration to its server: enough to hide the round trips, few enough to be a polite
 * client.
 */
const MAX_CONNECTIONS = 8;
/**
 * Each is renewed after so many messages, as many servers limit them; every renewal costs the pool 100 ms.
 */
const MAX_MESSAGES = 500;

const DEFAULT_TIMEOUTS: Timeouts = {
  connectMs: 10_000,
  replyMs: 60_000,
  idleMs: 30_000,
};

function connect(config: Config, { egress, timeouts }: SenderDeps): Sender<EmailMessage> {
  const limits = { ...DEFAULT_TIMEOUTS, ...timeouts };
  const pool = openPool(config, limits, egress);
  const inFlight = new Set<Promise<SendOutcome>>();
  let closed = false;

  function send(message: EmailMessage): Promise<SendOutcome> {
    if (closed)
      return Promise.resolve({ kind: 'retry', reason: 'the connection is being closed', ambiguous: false });
    if (!isMailbox(message.to.email)) return Promise.resolve(NO_ADDRESS);
    const sending = exchange(pool, build(message, config), limits).then((reply) =>
      classify(withoutPassword(reply, config)),
    );
    inFlight.add(sending);
    return sending.finally(() => inFlight.delete(sending));
  }

  async function close({ graceMs = 10_000 }: { graceMs?: number } = {}): Promise<void> {
    closed = true;
    const impatience = setTimeout(() => pool.close({ force: true }), graceMs);
    await Promise.all(inFlight);
    clearTimeout(impatience);
    pool.close();
  }

  return { concurrency: MAX_CONNECTIONS * 2, send, close };
}

/** Connects, greets, encrypts and logs in as for an e-mail, and takes its leave. */
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
 * Rejects with what the server or the connection says. Not by nodemailer's pool: that is content where no
 * login is offered.
 */
function logIn(config: Config, limits: Timeouts, socket: Socket): Promise<Finding[]> {
  const { SMTPConnection } = nodemailer();
  const connection = new SMTPConnection({ ...poolOptions(config, limits), connection: socket });
  const { username: user, password: pass } = config;
  return new Promise<Finding[]>((resolve, reject) => {
    const leave = (findings: Finding[]) => {
      connection.quit();
      resolve(findings);
    };
    connection.on('error', reject);
    connection.once('end', () => reject(new Error('the mail server closed the connection')));
    connection.connect((error) => {
      if (error) reject(error);
      else if (user === '') leave([]);
      else if (!connection.allowsAuth) leave([noLogin(connection)]);
      else
        connection.login({ credentials: { user, pass } }, (refused) => {
          if (refused) reject(refused);
          else leave([]);
        });
    });
  });
}

function noLogin({ secure }: { secure: boolean }): Finding {
  const where = secure ? '' : ' without encryption: set security to starttls or ssl';
  return {
    field: 'username',
    problem: `cannot be logged in with: the mail server offers no login${where}; or leave it empty, to send without`,
  };
}

function fieldOf(error: SmtpError): keyof Config {
  if (error.code === 'EAUTH') return 'password';
  return error.code === 'ETLS' || isTlsFailure(error) ? 'security' : 'host';
}

function openPool(config: Config, limits: Timeouts, egress: EgressGuard): SMTPPool {
  const { SMTPPool: Pool } = nodemailer();
  const { host, port } = config;
  // Messages beyond the pool's connections wait for the first to fail, and would then wait as long again.
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
  { host, port, username, password, security }: Config,
  limits: Timeouts,
): SMTPPool.Options {
  const secure = security === 'ssl' || (security === undefined && port === 465);
  return {
    host,
    port,
    secure,
    requireTLS: security === 'starttls',
    ignoreTLS: security === 'none',
    // Said aloud, so that no environment variable (NODE_TLS_REJECT_UNAUTHORIZED) switches verification off.
    tls: { rejectUnauthorized: true, minVersion: 'TLSv1.2' },
    ...(username === '' ? {} : { auth: { user: username, pass: password } }),
    maxConnections: MAX_CONNECTIONS,
    maxMessages: MAX_MESSAGES,
    // A message that met a connection which the server had just closed goes to another one at once; anything
    // that lasts longer is for the queue, which outlives this process.
    maxRequeues: 1,
    idleTimeout: limits.idleMs,
    connectionTimeout: limits.connectMs * 2, // DNS, TCP, greeting and TLS together
    greetingTimeout: limits.connectMs,
    socketTimeout: limits.replyMs,
    socketCloseTimeout: 1_000,
    logger: false,
  };
}

/**
 * Hands one message to the pool and waits for its ending, which the deadline brings about if nothing else
 * does.
 */
function exchange(
  pool: SMTPPool,
  { envelope, messageId, raw }: SmtpRequest,
  limits: Timeouts,
): Promise<SmtpReply> {
  const aborter = new AbortController();
  // Each wait has a limit of its own, but one that a server can stretch by trickling its reply byte by byte.
  const deadline = setTimeout(() => aborter.abort(), 2 * limits.connectMs + 5 * limits.replyMs);
  let written = false;
  // The part of nodemailer's MimeNode that its pool uses.
  const message = {
    getHeader: () => messageId,
    messageId: () => messageId,
    getEnvelope: () => ({ from: envelope.from, to: [envelope.to], size: raw.length }),
    createReadStream: () =>
      Readable.from(pieces(raw), { objectMode: false }).once('end', () => (written = true)),
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
 * Small enough that the stream ends when the socket has taken nearly all of it, not when it has been shown
 * it.
 */
const PIECE_BYTES = 64 * 1024;

function pieces(raw: Buffer): Buffer | Iterable<Buffer> {
  if (raw.length <= PIECE_BYTES) return raw;
  return Array.from({ length: Math.ceil(raw.length / PIECE_BYTES) }, (_, n) =>
    raw.subarray(n * PIECE_BYTES, (n + 1) * PIECE_BYTES),
  );
}

function build(message: EmailMessage, { from, reply_to: replyTo }: Config): SmtpRequest {
  const sender = withAsciiDomain(from.email);
  const recipient = withAsciiDomain(message.to.email);
  const domain = domainToASCII(from.email.slice(from.email.lastIndexOf('@') + 1));
  const messageId = `<${message.deliveryId}@${domain}>`;
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

/**
 * A careless server may repeat what it was sent; the password must not go further than here. It is taken out
 * before anything is shortened, in every form in which a server sees it: plain, and as AUTH LOGIN and
 * AUTH PLAIN carry it.
 */
function withoutPassword(reply: SmtpReply, { username, password }: Config): SmtpReply {
  if (password.length < 4) return reply; // shorter ones are parts of words
  const forms = [base64(`\0${username}\0${password}`), base64(password), password];
  const hide = (text: string) => forms.reduce((left, form) => left.replaceAll(form, '••••••'), text);
  if ('response' in reply) return { response: hide(reply.response) };
  const { error, written } = reply;
  const hidden = { ...error, message: hide(error.message) };
  if (error.response !== undefined) hidden.response = hide(error.response);
  return { error: hidden, written };
}

/** Without the padding, which a server may leave out when it repeats it. */
function base64(text: string): string {
  return Buffer.from(text).toString('base64').replace(/=+$/, '');
}

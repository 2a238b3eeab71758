import type { Static } from 'typebox';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { emailMessage } from '../../../test/support/email-message.ts';
import { type Stage, type Step, startSmtpScript } from '../../../test/support/smtp-script.ts';
import { startSmtpStandIn } from '../../../test/support/smtp-stand-in.ts';
import { distrustTestAuthority, trustTestAuthority } from '../../../test/support/test-authority.ts';
import { TestClock } from '../../../test/support/test-clock.ts';
import { type Clock, systemClock } from '../../lib/clock.ts';
import { createEgressGuard, type EgressGuard } from '../../lib/egress.ts';
import type { EmailMessage, Sender, SenderDeps, SendOutcome } from '../provider.ts';
import { maskSecrets } from '../provider.ts';
import { createTransport, type Timeouts } from '../shared/transport.ts';
import { smtp } from './index.ts';
import type { SmtpReply } from './reply.ts';

type Config = Static<typeof smtp.config>;

const cleanups: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

beforeEach(trustTestAuthority);
afterEach(distrustTestAuthority);

async function standIn(options: Parameters<typeof startSmtpStandIn>[0] = {}) {
  const server = await startSmtpStandIn(options);
  cleanups.push(() => server.stop());
  return server;
}

function connect(
  config: Partial<Config>,
  timeouts: Partial<Timeouts> = {},
  /** Runs when the test ends; concurrent tests have one each. */
  atEnd: (cleanup: () => Promise<void>) => void = (cleanup) => cleanups.push(cleanup),
  clock: Clock = systemClock,
): Sender<EmailMessage> {
  const sender = smtp.connect(
    {
      host: 'localhost',
      port: 1,
      username: '',
      password: '',
      from: { email: 'noreply@example.com' },
      ...config,
    },
    { ...depsOf(createEgressGuard({ allow: '127.0.0.0/8,::1' }), timeouts), clock },
  );
  atEnd(() => sender.close());
  return sender;
}

function depsOf(egress: EgressGuard, timeouts: Partial<Timeouts> = {}): SenderDeps {
  return { egress, clock: systemClock, transport: createTransport({ egress }), timeouts };
}

const plainConfig: Config = {
  host: 'h',
  port: 25,
  username: '',
  password: '',
  from: { email: 'noreply@example.com' },
};

function email(changes: Partial<EmailMessage> = {}): EmailMessage {
  return emailMessage({
    deliveryId: '01990000-0000-7000-8000-000000000001',
    to: { email: 'ann@example.org' },
    subject: 'Hello',
    html: '<p>Hello</p>',
    text: 'Hello',
    headers: {},
    date: new Date('2026-02-03T04:05:06Z'),
    ...changes,
  });
}

describe('the message', () => {
  test('arrives unchanged', async () => {
    const server = await standIn();
    const sender = connect({
      port: server.port,
      from: { email: 'noreply@example.com', name: 'Örtchen "&" Co, Ltd' },
      reply_to: { email: 'help@example.com', name: 'Help' },
    });
    const outcome = await sender.send(
      email({
        to: { email: 'ann@example.org', name: 'Ann 🎉' },
        subject: 'Grüße 👩‍👩‍👧 שלום',
        html: '<p>é = "x"</p>\n.\n..dots\n',
        text: 'é\n.\nFrom here',
        headers: {
          'List-Unsubscribe': `<https://u.example/${'a'.repeat(300)}>`,
          'List-Unsubscribe-Post': 'List-Unsubscribe=One-Click',
          'Auto-Submitted': 'auto-generated',
        },
      }),
    );
    expect(outcome).toEqual({ kind: 'sent', providerId: '1' });
    const [received] = await server.waitFor(1);
    expect(received).toMatchObject({ from: 'noreply@example.com', to: 'ann@example.org' });
    const parsed = await received?.parsed();
    expect(parsed).toMatchObject({
      from: { address: 'noreply@example.com', name: 'Örtchen "&" Co, Ltd' },
      to: [{ address: 'ann@example.org', name: 'Ann 🎉' }],
      replyTo: [{ address: 'help@example.com', name: 'Help' }],
      subject: 'Grüße 👩‍👩‍👧 שלום',
      messageId: '<01990000-0000-7000-8000-000000000001@example.com>',
      date: '2026-02-03T04:05:06.000Z',
      attachments: [],
    });
    expect(parsed?.html?.trim()).toBe('<p>é = "x"</p>\n.\n..dots');
    expect(parsed?.text?.trim()).toBe('é\r\n.\r\nFrom here');
    const headers = Object.fromEntries(parsed?.headers.map(({ key, value }) => [key, value]) ?? []);
    expect(headers).toMatchObject({
      'list-unsubscribe': `<https://u.example/${'a'.repeat(300)}>`,
      'list-unsubscribe-post': 'List-Unsubscribe=One-Click',
      'auto-submitted': 'auto-generated',
      'mime-version': '1.0',
    });
  });

  test('comes from the domain of the sender, whatever the name of this machine', async () => {
    const server = await standIn();
    for (const [domain, client] of [
      ['example.com', 'example.com'],
      ['bücher.example', 'xn--bcher-kva.example'],
    ]) {
      await connect({ port: server.port, from: { email: `noreply@${domain}` } }).send(email());
      expect(server.received.at(-1)?.client).toBe(client);
    }
  });

  test('is identical when it is retried', async () => {
    const server = await standIn();
    const sender = connect({ port: server.port });
    await sender.send(email());
    await sender.send(email());
    expect(server.received[1]?.raw).toEqual(server.received[0]?.raw);
  });

  test('golden', () => {
    const config = {
      host: 'h',
      port: 25,
      username: '',
      password: '',
      from: { email: 'noreply@bücher.example', name: 'Bücher' },
    };
    const { envelope, messageId, raw } = smtp.build(email({ headers: { 'X-A': 'b' } }), config);
    expect({ envelope, messageId }).toEqual({
      envelope: { from: 'noreply@xn--bcher-kva.example', to: 'ann@example.org' },
      messageId: '<01990000-0000-7000-8000-000000000001@xn--bcher-kva.example>',
    });
    expect(raw.toString().split('\r\n')).toEqual([
      'From: =?UTF-8?Q?B=C3=BCcher?= <noreply@xn--bcher-kva.example>',
      'To: ann@example.org',
      'Subject: Hello',
      'Message-ID: <01990000-0000-7000-8000-000000000001@xn--bcher-kva.example>',
      'Date: Tue, 03 Feb 2026 04:05:06 +0000',
      'X-A: b',
      'MIME-Version: 1.0',
      'Content-Type: multipart/alternative;',
      ' boundary="=_01990000-0000-7000-8000-000000000001"',
      '',
      '--=_01990000-0000-7000-8000-000000000001',
      'Content-Type: text/plain; charset=utf-8',
      'Content-Transfer-Encoding: quoted-printable',
      '',
      'Hello',
      '--=_01990000-0000-7000-8000-000000000001',
      'Content-Type: text/html; charset=utf-8',
      'Content-Transfer-Encoding: quoted-printable',
      '',
      '<p>Hello</p>',
      '--=_01990000-0000-7000-8000-000000000001--',
      '',
    ]);
  });

  test.each([
    ['subject', { subject: 'x\r\nBcc: evil@example.net\r\n\r\nbody' }],
    ['subject with a bare CR', { subject: 'x\rBcc: evil@example.net' }],
    ['name', { to: { email: 'ann@example.org', name: 'x"\r\nBcc: evil@example.net' } }],
    ['header', { headers: { 'X-A': 'x\nBcc: evil@example.net' } }],
  ] satisfies [string, Partial<EmailMessage>][])(
    'no header is smuggled in by the %s',
    async (_where, changes) => {
      const server = await standIn();
      await connect({ port: server.port }).send(email(changes));
      const [received] = await server.waitFor(1);
      const parsed = await received?.parsed();
      expect(parsed?.headers.map(({ key }) => key)).not.toContain('bcc');
      expect(parsed?.text?.trim()).toBe('Hello');
      expect(received?.to).toBe('ann@example.org');
    },
  );

  test('cannot be ended by its content, and its content cannot begin another', async () => {
    const server = await standIn();
    const text =
      'a\r\n.\r\nMAIL FROM:<evil@example.net>\r\nb\r.\rc\n.\n--=_01990000-0000-7000-8000-000000000001--\r\nd';
    await connect({ port: server.port }).send(email({ text, html: text }));
    const [received] = await server.waitFor(1);
    const parsed = await received?.parsed();
    expect(server.received).toHaveLength(1);
    expect(parsed?.text?.trim()).toBe(text.replace(/\r\n?/g, '\n'));
    expect(parsed?.html?.trim()).toBe(text.replace(/\r\n?/g, '\n'));
  });

  test('of 10 MiB in any script arrives complete', async () => {
    const server = await standIn();
    const html = 'नमस्ते '.repeat(500_000);
    expect(await connect({ port: server.port }).send(email({ html }))).toMatchObject({ kind: 'sent' });
    const [received] = await server.waitFor(1);
    expect((await received?.parsed())?.html?.trim()).toBe(html.trim());
    const lines = received?.raw.toString('latin1').split('\r\n') ?? [];
    expect(lines.filter((line) => line.length > 998)).toEqual([]);
  });

  test('that is larger than the server accepts is rejected without being sent', async () => {
    const server = await standIn({ maxSize: 10_000 });
    const outcome = await connect({ port: server.port }).send(email({ html: 'x'.repeat(20_000) }));
    expect(outcome).toMatchObject({
      kind: 'rejected',
      scope: 'message',
      reason: expect.stringContaining('10000'),
    });
    expect(server.received).toEqual([]);
  });
});

describe('addresses', () => {
  test('of international domains are sent in ASCII', async () => {
    const server = await standIn();
    await connect({ port: server.port }).send(email({ to: { email: 'ann@bücher.example' } }));
    // smtp-server decodes the envelope, so the message and the built request are checked.
    const [received] = await server.waitFor(1);
    expect(received?.raw.toString()).toContain('\r\nTo: ann@xn--bcher-kva.example\r\n');
    const { envelope } = smtp.build(email({ to: { email: 'ann@bücher.example' } }), plainConfig);
    expect(envelope.to).toBe('ann@xn--bcher-kva.example');
  });

  test('with a local part that is not ASCII are sent with SMTPUTF8', async () => {
    const server = await standIn();
    await connect({ port: server.port }).send(email({ to: { email: 'jörg@bücher.example', name: 'Jörg' } }));
    const [received] = await server.waitFor(1);
    expect(received?.to).toBe('jörg@bücher.example');
    expect((await received?.parsed())?.to).toEqual([{ address: 'jörg@bücher.example', name: 'Jörg' }]);
  });

  test('that a server without SMTPUTF8 rejects are address errors', async () => {
    const server = await startSmtpScript({ RCPT: '501 5.5.4 Bad address syntax' });
    cleanups.push(server.stop);
    expect(
      await connect({ port: server.port }).send(email({ to: { email: 'jörg@example.org' } })),
    ).toMatchObject({
      kind: 'rejected',
      scope: 'address',
    });
  });

  test.each([
    '',
    'ann',
    '@example.org',
    'ann@',
    'a\r\nRCPT TO:<b@c.de>@example.org',
    'a>b@example.org',
    'a\u0000@b.de',
    'a@b c',
    'a b@c.de',
  ])('%j is not an address, and no server is called', async (address) => {
    expect(await connect({}).send(email({ to: { email: address } }))).toMatchObject({
      kind: 'rejected',
      scope: 'address',
    });
  });
});

describe('security', () => {
  const account = { username: 'belfry', password: 'correct horse' };

  test.each(['none', 'ssl', 'starttls'] as const)('%s: the message arrives', async (security) => {
    const server = await standIn({ security, account });
    const sender = connect({ port: server.port, security, ...account });
    expect(await sender.send(email())).toMatchObject({ kind: 'sent' });
  });

  test('an IP address is a valid host if the certificate is for it', async () => {
    const server = await standIn({ security: 'ssl' });
    expect(
      await connect({ host: '127.0.0.1', port: server.port, security: 'ssl' }).send(email()),
    ).toMatchObject({
      kind: 'sent',
    });
  });

  test('default: encrypted if the server offers it', async () => {
    const server = await standIn({ security: 'starttls' });
    distrustTestAuthority();
    expect(await connect({ port: server.port }).send(email())).toMatchObject({
      kind: 'rejected',
      scope: 'config',
    });
    trustTestAuthority();
    expect(await connect({ port: server.port }).send(email())).toMatchObject({ kind: 'sent' });
  });

  test('starttls: a server that does not offer it receives nothing', async () => {
    const server = await standIn({ security: 'none', account });
    const outcome = await connect({ port: server.port, security: 'starttls', ...account }).send(email());
    expect(outcome).toMatchObject({
      kind: 'rejected',
      scope: 'config',
      reason: expect.stringContaining('STARTTLS'),
    });
    expect(server.received).toEqual([]);
  });

  test.each(['ssl', 'starttls'] as const)(
    '%s: a certificate by an unknown authority is refused',
    async (security) => {
      distrustTestAuthority();
      const server = await standIn({ security });
      expect(await connect({ port: server.port, security }).send(email())).toMatchObject({
        kind: 'rejected',
        scope: 'config',
        reason: expect.stringMatching(/^TLS with the mail server failed: .*certificate/),
      });
      expect(server.received).toEqual([]);
    },
  );

  test.each(['ssl', 'starttls'] as const)(
    '%s: a certificate for another name is refused',
    async (security) => {
      const server = await standIn({ security });
      const egress = createEgressGuard({
        allow: '127.0.0.0/8',
        resolver: async () => [{ address: '127.0.0.1', family: 4 }],
      });
      const sender = smtp.connect(
        {
          host: 'mail.example',
          port: server.port,
          username: '',
          password: '',
          from: { email: 'a@b.de' },
          security,
        },
        depsOf(egress),
      );
      cleanups.push(() => sender.close());
      expect(await sender.send(email())).toMatchObject({
        kind: 'rejected',
        scope: 'config',
        code: 'ERR_TLS_CERT_ALTNAME_INVALID',
      });
    },
  );

  test('ssl with a server without TLS is a config error', async () => {
    const server = await standIn();
    expect(await connect({ port: server.port, security: 'ssl' }).send(email())).toMatchObject({
      kind: 'rejected',
      scope: 'config',
    });
  });

  test('a wrong password is a config error whose reason does not contain it', async () => {
    const server = await standIn({ account });
    server.fail({ at: 'auth', how: { reply: '535 5.7.8 belfry/hunter22 is not the password' } });
    const outcome = await connect({ port: server.port, username: 'belfry', password: 'hunter22' }).send(
      email(),
    );
    expect(outcome).toMatchObject({ kind: 'rejected', scope: 'config', code: '535 5.7.8' });
    expect(JSON.stringify(outcome)).not.toContain('hunter22');
  });

  test.each([
    ['as AUTH PLAIN sends it', Buffer.from('\0user\0two  blanks').toString('base64').replace(/=+$/, '')],
    ['as AUTH LOGIN sends it', Buffer.from('two  blanks').toString('base64')],
    ['with blanks that get lost in a reason', 'two  blanks'],
    ['where a reason is cut off', `${'x'.repeat(285)}two  blanks`],
  ])('a password that the server echoes %s is not in the reason', async (_how, said) => {
    const server = await standIn({ account });
    server.fail({ at: 'auth', how: { reply: `535 5.7.8 ${said}` } });
    const config = { port: server.port, username: 'user', password: 'two  blanks' };
    const outcome = await connect(config).send(email());
    expect(outcome).toMatchObject({ kind: 'rejected', scope: 'config' });
    const reason = outcome.kind === 'rejected' ? outcome.reason : '';
    for (const form of [said.replace(/x{9,}/, ''), 'two', 'blank', 'dHdvICBi', 'HVzZXIAd'])
      expect(reason).not.toContain(form);
  });

  test('the password is masked', () => {
    const config = { host: 'h', port: 25, username: 'u', password: 'hunter22', from: { email: 'a@b.de' } };
    expect(maskSecrets(smtp.config, config)).toEqual({ ...config, password: '••••••' });
  });
});

describe('failures', () => {
  const retry = { kind: 'retry', ambiguous: false };
  const rejected = (scope: string) => ({ kind: 'rejected', scope });
  const either = { kind: 'rejected', scope: 'message', suspect: 'config' };
  const FULL = { ...retry, retryAfterMs: 3_600_000 };
  const LATER = FULL;

  const REPLIES: [Stage, string, object][] = [
    ['GREETING', '421 4.3.2 too busy', retry],
    ['GREETING', '554 5.7.1 go away', rejected('config')],
    ['GREETING', 'HTTP/1.1 400 Bad Request', { ...retry, suspect: 'config' }],
    ...(['AUTH', 'MAIL', 'RCPT', 'DATA', 'END'] as const).map((stage): [Stage, string, object] => [
      stage,
      'what?',
      // No address is to blame.
      { ...retry, ambiguous: stage === 'END', suspect: 'config', code: 'EPROTOCOL' },
    ]),
    ['EHLO', '421 4.3.2 too busy', retry],
    ['EHLO', '502 not implemented', { kind: 'sent' }], // HELO does
    ['AUTH', '535 5.7.8 wrong', rejected('config')],
    ['AUTH', '534 5.7.9 too weak', rejected('config')],
    ['AUTH', '454 4.7.0 later', retry],
    ['MAIL', '421 4.3.2 shutting down', retry],
    ['MAIL', '451 4.3.0 later', retry],
    ['MAIL', '452 4.3.1 no space', retry],
    ['MAIL', '530 5.7.0 log in first', rejected('config')],
    ['MAIL', '550 5.1.8 bad sender', rejected('config')],
    ['MAIL', '552 5.3.4 too big', rejected('message')],
    ['MAIL', '503 5.5.1 out of order', retry],
    ['RCPT', '421 4.3.2 shutting down', retry],
    ['RCPT', '450 4.2.1 greylisted', retry],
    ['RCPT', '451 later', retry],
    ['RCPT', '452 4.2.2 mailbox full', FULL],
    ['RCPT', '552 5.2.2 mailbox full', FULL],
    ['RCPT', '550 5.1.1 no such user', rejected('address')],
    ['RCPT', '550 5.1.10 null MX', rejected('address')],
    ['RCPT', '553 5.1.3 bad syntax', rejected('address')],
    ['RCPT', '550 no such user', rejected('address')],
    ['RCPT', '551 moved', rejected('address')],
    ['RCPT', '556 takes no mail', rejected('address')],
    ['RCPT', '550 5.7.1 relaying denied', either],
    ['RCPT', '530 5.7.0 authentication required', either],
    ['RCPT', '554 5.7.1 <ann@example.org>: Relay access denied', either],
    ['RCPT', '550 5.7.1 looks like spam', either],
    ['RCPT', '554 transaction failed', either],
    ['DATA', '451 4.3.0 later', retry],
    ['DATA', '554 5.5.1 no', rejected('message')],
    ['END', '421 4.3.2 shutting down', retry],
    ['END', '451 4.7.1 later', retry],
    ['END', '552 5.2.2 mailbox full', FULL],
    ['END', '552 5.3.4 too big', rejected('message')],
    ['END', '554 5.7.1 spam', rejected('message')],
    ['END', '550 5.6.0 broken', rejected('message')],
    ['END', '550 5.1.1 no such user', rejected('address')],
    ['END', '550 5.7.1 relay access denied', either],
    // The account has sent what it may in a day. Google and Microsoft say so with a permanent status.
    ['MAIL', '550 5.7.1 Daily SMTP relay limit exceeded for customer', LATER],
    ['RCPT', '550 5.4.5 Daily user sending limit exceeded', LATER],
    ['END', '550 5.4.5 Daily user sending quota exceeded', LATER],
    ['END', '554 5.2.0 STOREDRV.Submission.Exception:SubmissionQuotaExceededException', LATER],
    ['END', '552 message size limit exceeded', rejected('message')],
  ];

  const STAGES: Stage[] = ['GREETING', 'EHLO', 'AUTH', 'MAIL', 'RCPT', 'DATA', 'BODY', 'END'];
  const BREAKS = STAGES.flatMap((stage): [Stage, Step, object][] => [
    [stage, 'cut', { ...retry, ambiguous: stage === 'END' }],
    [stage, 'hang', { ...retry, ambiguous: stage === 'END', code: 'ETIMEDOUT' }],
  ]);

  const table = [false, true].flatMap((pipelining) =>
    [...REPLIES, ...BREAKS].map((row) => [pipelining, ...row] as const),
  );

  // Large messages keep the process busy for longer than the timeouts of other tests.
  const isLarge = ([, stage]: (typeof table)[number]) => stage === 'BODY';
  describe.each([
    ['large', table.filter(isLarge), false],
    ['small', table.filter((row) => !isLarge(row)), true],
  ] as const)('in a conversation about a %s message:', (_size, rows, concurrent) => {
    test.for(rows)('pipelining %s, at %s: %s', { concurrent }, async (row, { onTestFinished: atEnd }) => {
      const [pipelining, stage, step, expected] = row;
      const server = await startSmtpScript({ [stage]: step }, { pipelining });
      atEnd(server.stop);
      const sender = connect(
        { port: server.port, username: 'user', password: 'secret' },
        // Only the tested timeout is short.
        step !== 'hang' ? {} : stage === 'GREETING' ? { connectMs: 250 } : { replyMs: 400 },
        atEnd,
      );
      // Larger than the socket buffers, so that BODY occurs before the whole message is sent.
      const body = isLarge(row) ? 'x'.repeat(20 * 1024 * 1024) : 'x';
      let outcome = await sender.send(email({ text: body }));
      // On a busy machine, the timeout of a step can end an earlier stage.
      while (!server.reached(stage)) outcome = await sender.send(email({ text: body }));
      expect(outcome).toMatchObject(expected);
    });
  });

  test.each(['GREETING', 'MAIL', 'END'] as const)('a reply at %s that never ends', async (stage) => {
    const server = await startSmtpScript({ [stage]: 'trickle' });
    cleanups.push(server.stop);
    const sender = connect(
      { port: server.port },
      stage === 'GREETING' ? { connectMs: 250 } : { connectMs: 500, replyMs: 200 },
    );
    let outcome = await sender.send(email());
    while (!server.reached(stage)) outcome = await sender.send(email());
    expect(outcome).toMatchObject({ ...retry, ambiguous: stage === 'END' });
  });

  test('a port without a server', async () => {
    const server = await standIn();
    await server.stop();
    expect(await connect({ port: server.port }).send(email())).toEqual({
      kind: 'retry',
      reason: 'the mail server refused the connection',
      code: 'ECONNREFUSED',
      ambiguous: false,
      suspect: 'config',
    });
  });

  test('a host that does not exist', async () => {
    const sender = connect({ host: 'nowhere.invalid' });
    expect(await sender.send(email())).toMatchObject({
      kind: 'retry',
      ambiguous: false,
      code: expect.stringMatching(/ENOTFOUND|EAI_AGAIN/),
    });
  });

  test('a host that does not exist is looked up once for all waiting messages', async () => {
    let lookups = 0;
    const resolver = async () => {
      lookups += 1;
      throw Object.assign(new Error('getaddrinfo ENOTFOUND nowhere.invalid'), { code: 'ENOTFOUND' });
    };
    const sender = smtp.connect(
      { host: 'nowhere.invalid', port: 25, username: '', password: '', from: { email: 'a@b.de' } },
      depsOf(createEgressGuard({ resolver })),
    );
    cleanups.push(() => sender.close());
    const outcomes = await Promise.all(Array.from({ length: 40 }, () => sender.send(email())));
    for (const outcome of outcomes)
      expect(outcome).toMatchObject({ kind: 'retry', ambiguous: false, code: 'ENOTFOUND' });
    expect(lookups).toBe(1);
  });

  test('a host within our own network is not connected to', async () => {
    const server = await standIn();
    const sender = smtp.connect(
      { host: '127.0.0.1', port: server.port, username: '', password: '', from: { email: 'a@b.de' } },
      depsOf(createEgressGuard()),
    );
    cleanups.push(() => sender.close());
    expect(await sender.send(email())).toEqual({
      kind: 'rejected',
      scope: 'config',
      code: 'EGRESS_REFUSED',
      reason: '127.0.0.1 is a loopback address; set EGRESS_ALLOW=127.0.0.1/32 (or its network) to permit it',
    });
    expect(server.connections().opened).toBe(0);
  });

  test('one rejected recipient does not affect the others', async () => {
    const server = await standIn();
    server.fail({
      at: 'rcpt',
      how: { reply: '550 5.1.1 no such user' },
      when: ({ to }) => to === 'user3@example.org',
    });
    const sender = connect({ port: server.port });
    const outcomes = await Promise.all(
      Array.from({ length: 50 }, (_, n) =>
        sender.send(email({ deliveryId: `d${n}`, to: { email: `user${n}@example.org` } })),
      ),
    );
    expect(outcomes.map(({ kind }) => kind)).toEqual(
      Array.from({ length: 50 }, (_, n) => (n === 3 ? 'rejected' : 'sent')),
    );
    expect(server.received).toHaveLength(49);
  });
});

describe('golden classifications', () => {
  test.each([
    [{ response: '250 2.0.0 Ok: queued as 4XyZ' }, { kind: 'sent', providerId: '4XyZ' }],
    [{ response: '250 OK id=1uAbCd-0003x1-Ab' }, { kind: 'sent', providerId: '1uAbCd-0003x1-Ab' }],
    [{ response: '250 fine' }, { kind: 'sent' }],
    [
      {
        error: {
          message: 'x',
          code: 'EENVELOPE',
          command: 'RCPT TO',
          responseCode: 550,
          response: '550-5.1.1 No\n550 5.1.1 such\tuser',
        },
        written: false,
      },
      { kind: 'rejected', scope: 'address', code: '550 5.1.1', reason: '550-5.1.1 No 550 5.1.1 such user' },
    ],
    [
      {
        error: { message: 'x', code: 'ESOCKET', originalCode: 'ECONNRESET', command: 'CONN' },
        written: true,
      },
      { kind: 'retry', ambiguous: true, code: 'ECONNRESET', reason: 'the mail server broke the connection' },
    ],
    [
      { error: { message: 'Message sending aborted', code: 'EABORT' }, written: false },
      { kind: 'retry', ambiguous: false, code: 'EABORT', reason: 'the mail server did not respond in time' },
    ],
  ] satisfies [SmtpReply, SendOutcome][])('%j', (reply, outcome) => {
    expect(smtp.classify(reply)).toEqual(outcome);
  });
});

describe('connections', () => {
  test('are kept alive and shared', async () => {
    const server = await standIn();
    const sender = connect({ port: server.port });
    await Promise.all(Array.from({ length: 200 }, (_, n) => sender.send(email({ deliveryId: `d${n}` }))));
    expect(server.received).toHaveLength(200);
    expect(server.connections().opened).toBeLessThanOrEqual(sender.concurrency);
    const before = server.connections().opened;
    await sender.send(email());
    expect(server.connections().opened).toBe(before);
  });

  /** Sends e-mails as the queue does: one that is to be retried is sent again. Returns the attempts. */
  async function sendAll(sender: Sender<EmailMessage>, count: number): Promise<number> {
    let attempts = 0;
    let left = Array.from({ length: count }, (_, n) => email({ deliveryId: `${n}` }));
    while (left.length > 0 && attempts < 20 * count) {
      attempts += left.length;
      const outcomes = await Promise.all(left.map((one) => sender.send(one)));
      left = left.filter((_, n) => outcomes[n]?.kind !== 'sent');
    }
    return left.length === 0 ? attempts : Number.NaN;
  }

  // With more than three, Microsoft's server rejects the messages of all of them.
  const TOO_MANY = { reply: '432 4.3.2 Concurrent connections limit exceeded.' };

  test('are fewer for a server that allows fewer', async () => {
    const server = await standIn();
    server.fail({ at: 'mail', how: TOO_MANY, when: () => server.connections().open > 3 });
    const sender = connect({ port: server.port });
    expect(await sendAll(sender, 40)).toBeLessThan(40 + 3 * 8);
    expect(server.received).toHaveLength(40);
    expect(server.connections().open).toBeLessThanOrEqual(3);
  });

  test.each([
    ['connect', '421 4.7.0 localhost Error: too many connections from 127.0.0.1'],
    ['connect', '421 Too many concurrent SMTP connections; please try again later.'],
    ['end', '432 4.3.2 STOREDRV.ClientSubmit; sender thread limit exceeded'],
  ] as const)('are fewer after at %s: %s', async (at, reply) => {
    const server = await standIn();
    server.fail({ at, how: { reply }, when: () => server.connections().open > 2 });
    const sender = connect({ port: server.port });
    expect(await sendAll(sender, 20)).toBeLessThan(20 + 3 * 8);
    expect(server.received).toHaveLength(20);
  });

  const sendAtOnce = (sender: Sender<EmailMessage>, count: number) =>
    Promise.all(Array.from({ length: count }, (_, n) => sender.send(email({ deliveryId: `${n}` }))));

  test('to a server that hangs cost its timeout once, not once for each message', async () => {
    const server = await standIn();
    server.fail({ at: 'mail', how: TOO_MANY, when: () => server.connections().open > 1 });
    const sender = connect({ port: server.port }, { replyMs: 1_000 });
    await sendAll(sender, 40);
    server.heal();
    server.fail({ at: 'end', how: 'hang' });
    const outcomes = await sendAtOnce(sender, sender.concurrency);
    const ambiguous = outcomes.filter((outcome) => outcome.kind === 'retry' && outcome.ambiguous);
    expect([outcomes.filter(({ kind }) => kind === 'retry').length, ambiguous.length]).toEqual([16, 1]);
  });

  test('of which one hangs fail no other message', async () => {
    const server = await standIn();
    server.fail({ at: 'end', how: 'hang', times: 1 });
    const sender = connect({ port: server.port }, { replyMs: 1_000 });
    const hanging = sender.send(email());
    await expect.poll(() => server.connections().hanging).toBe(1);
    let ended = false;
    void hanging.then(() => (ended = true));
    const others: SendOutcome[] = [];
    while (!ended) others.push(...(await sendAtOnce(sender, 15)));
    expect(others.filter(({ kind }) => kind !== 'sent')).toEqual([]);
    expect(await hanging).toMatchObject({ kind: 'retry', ambiguous: true });
  });

  test('are as many as before ten minutes later', async () => {
    const server = await standIn();
    server.fail({ at: 'mail', how: TOO_MANY, times: 1 });
    const clock = new TestClock();
    const sender = connect({ port: server.port }, {}, (cleanup) => cleanups.push(cleanup), clock);
    await sendAll(sender, 1);
    const opened = () => server.connections().opened;
    const before = opened();
    await sendAll(sender, 16);
    expect(opened() - before).toBeLessThanOrEqual(4);
    clock.advance(600_000);
    await sendAll(sender, 16);
    expect(server.connections().open).toBe(8);
  });

  test('are three at most with the servers of Microsoft', () => {
    for (const host of ['smtp.office365.com', 'SMTP.Office365.com.', 'smtp.partner.outlook.cn'])
      expect(connect({ host, port: 587 }).concurrency).toBe(6);
    expect(connect({ host: 'office365.com.example', port: 587 }).concurrency).toBe(16);
  });

  test('are closed when idle', async () => {
    const server = await standIn();
    const sender = connect({ port: server.port }, { idleMs: 50 });
    await sender.send(email());
    // By default, they are closed after 30 s.
    await expect.poll(() => server.connections(), { timeout: 20_000 }).toMatchObject({ opened: 1, open: 0 });
    expect(await sender.send(email())).toMatchObject({ kind: 'sent' });
  });

  test('that the server closed are replaced without a failure', async () => {
    const server = await standIn();
    const sender = connect({ port: server.port });
    expect(await sender.send(email())).toMatchObject({ kind: 'sent' });
    await server.stop();
    expect(await sender.send(email())).toMatchObject({ kind: 'retry', ambiguous: false });
    await server.restart();
    // The failure is remembered for a second.
    await expect.poll(() => sender.send(email()), { timeout: 10_000 }).toMatchObject({ kind: 'sent' });
    expect(server.received).toHaveLength(2);
  });

  test('closing finishes the sends in flight, and rejects new ones', async () => {
    const server = await standIn();
    const sender = connect({ port: server.port });
    const sends = Array.from({ length: 40 }, (_, n) => sender.send(email({ deliveryId: `d${n}` })));
    await sender.close();
    expect((await Promise.all(sends)).every(({ kind }) => kind === 'sent')).toBe(true);
    expect(server.received).toHaveLength(40);
    expect(await sender.send(email())).toMatchObject({ kind: 'retry', ambiguous: false });
  });

  test('closing does not wait for a server that has stopped responding', async () => {
    const server = await startSmtpScript({ END: 'hang' });
    cleanups.push(server.stop);
    const sender = connect({ port: server.port });
    const sending = sender.send(email());
    await sender.close({ graceMs: 200 });
    expect(await sending).toMatchObject({ kind: 'retry', ambiguous: true });
  });
});

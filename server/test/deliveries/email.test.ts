import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { sql } from '../../src/db/client.ts';
import { savePreferences } from '../../src/domain/setup/preferences/save.ts';
import {
  processed,
  startTestService,
  type TestProject,
  type TestService,
  until,
} from '../support/service.ts';
import { type SmtpStandIn, startSmtpStandIn } from '../support/smtp-stand-in.ts';

let service: TestService;
let mail: SmtpStandIn;
let project: TestProject;
let made = 0;

beforeAll(async () => {
  [service, mail] = await Promise.all([
    startTestService({ settings: { PUBLIC_URL: 'https://notify.example.com' }, pollMs: 50 }),
    startSmtpStandIn({ account: { username: 'mailer', password: 'open sesame' } }),
  ]);
});
afterAll(async () => {
  await Promise.all([service.stop(), mail.stop()]);
});
beforeEach(async () => {
  made += 1;
  mail.heal();
  mail.received.length = 0;
  project = await service.createProject(`mail ${made}`);
  await saveSmtp();
});

async function saveSmtp(changes: object = {}) {
  const response = await project.call('PUT', '/integrations/smtp', {
    host: '127.0.0.1',
    port: mail.port,
    username: 'mailer',
    password: 'open sesame',
    from: { email: 'news@example.com', name: 'News' },
    security: 'none',
    ...changes,
  });
  expect(response.status).toBe(200);
}

const send = (body: object) => project.call('POST', '/broadcasts', { title: 'Hello', ...body });

/** Makes all retries due now. */
const bringForward = () =>
  service.rows("update jobs set due_at = now() - interval '1 second' where due_at is not null");

test('an e-mail is sent once although the end of its job cannot be written', async () => {
  const { db } = service.context;
  const run = (text: string) => db.query(sql('', text));
  await run(`create function refuse_end() returns trigger language plpgsql
    as $$ begin raise 'a bug'; end $$`);
  await run(`create trigger refuse_end before delete on jobs
    for each row when (old.kind = 'deliver') execute function refuse_end()`);
  const { body } = await send({ recipients: [{ external_id: 'once', email: 'once@example.com' }] });
  const jobs = (text: string) =>
    db.query<{ attempt: number }>(sql('', `select attempt from jobs where kind = 'deliver' ${text}`));
  const runAgain = async (text: string) => {
    await bringForward();
    return jobs(text);
  };
  try {
    await processed(project.call, body.id);
    await until(
      () => runAgain('and attempt >= 3'),
      (rows) => rows.length > 0,
    );
  } finally {
    await run('drop function refuse_end cascade');
  }
  await until(
    () => runAgain(''),
    (rows) => rows.length === 0,
  );
  expect(mail.received).toHaveLength(1);
});

test('users with an address get an HTML and text e-mail, others only the inbox', async () => {
  const { body } = await send({
    content: 'It arrives <b>tomorrow</b>.',
    action_url: 'https://shop.example/orders/1',
    category: 'orders',
    recipients: [
      { external_id: '1', email: 'Ada@example.com', first_name: 'Ada', last_name: 'L' },
      { external_id: '2' },
    ],
  });
  const done = await processed(project.call, body.id);
  expect(done.status).toEqual({
    status: 'processed',
    summary: { total: 2, failures: 0, pending: 0 },
    errors: null,
  });
  const [email, ...more] = await mail.waitFor(1);
  expect(more).toEqual([]);
  const parsed = await email?.parsed();
  expect(email).toMatchObject({ from: 'news@example.com', to: 'Ada@example.com' });
  expect(parsed?.subject).toBe('Hello');
  expect(parsed?.from).toEqual({ address: 'news@example.com', name: 'News' });
  expect(parsed?.to).toEqual([{ address: 'Ada@example.com', name: 'Ada L' }]);
  expect(parsed?.html).toContain('It arrives <b>tomorrow</b>.');
  expect(parsed?.html).toContain('https://shop.example/orders/1');
  expect(parsed?.text).toContain('It arrives tomorrow.');
  const headers = Object.fromEntries(parsed?.headers.map(({ key, value }) => [key, value]) ?? []);
  const [row] = await service.rows<{ id: string }>(
    `select n.id from notifications n join users u on u.id = n.user_id where n.broadcast_id = $1
        and u.external_id = '1'`,
    [body.id],
  );
  expect(headers['message-id']).toBe(`<${row?.id}@example.com>`);
  expect(headers['list-unsubscribe']).toMatch(
    /^<https:\/\/notify\.example\.com\/unsubscribe\/[A-Za-z0-9_-]+>$/,
  );
  expect(headers['list-unsubscribe-post']).toBe('List-Unsubscribe=One-Click');
});

test('each user gets the fixed texts in its language, else in that of the project', async () => {
  await project.call('PUT', '/project', { display_name: 'The Shop', default_locale: 'fr' });
  const locales = ['ar-EG', 'de-AT', 'nl', null];
  const { body } = await send({
    content: 'Hi',
    action_url: 'https://shop.example/orders/1',
    recipients: locales.map((locale) => ({ email: `${locale}@example.com`, locale })),
  });
  await processed(project.call, body.id);
  const texts = new Map(
    await Promise.all(
      (await mail.waitFor(4)).map(async (email) => {
        const parsed = await email.parsed();
        expect(parsed.html).toContain('<bdi>The Shop</bdi>');
        const [lang, dir] = /<html lang="(.*?)" dir="(.*?)">/.exec(parsed.html ?? '')?.slice(1) ?? [];
        const labels = [...(parsed.html ?? '').matchAll(/>([^<]+)<\/a>/g)].map(([, label]) => label);
        expect(parsed.text).toContain(`-- \n${labels[1]}`);
        return [email.to, [lang, dir, ...labels]] as const;
      }),
    ),
  );
  expect(locales.map((locale) => texts.get(`${locale}@example.com`))).toEqual([
    ['ar', 'rtl', 'فتح', 'إلغاء الاشتراك', 'إعدادات الإشعارات'],
    ['de', 'auto', 'Öffnen', 'Abbestellen', 'Benachrichtigungen einstellen'],
    ['fr', 'auto', 'Ouvrir', 'Se désabonner', 'Paramètres de notification'],
    ['fr', 'auto', 'Ouvrir', 'Se désabonner', 'Paramètres de notification'],
  ]);
});

test('overrides of the e-mail channel replace the members they name; null removes the link', async () => {
  const { body } = await send({
    content: 'Plain',
    action_url: 'https://shop.example/link',
    recipients: [{ email: 'bob@example.com' }],
    overrides: { channels: { email: { title: 'Mailed', content: '<i>Other</i>', action_url: null } } },
  });
  await processed(project.call, body.id);
  const parsed = await (await mail.waitFor(1))[0]?.parsed();
  expect(parsed?.subject).toBe('Mailed');
  expect(parsed?.html).toContain('<i>Other</i>');
  expect(parsed?.html).not.toContain('https://shop.example/link');
});

test('a click on the unsubscribe link disables the e-mails of that category, and no others', async () => {
  const recipients = [{ email: 'carol@example.com' }];
  await processed(project.call, (await send({ category: 'ads', recipients })).body.id);
  const parsed = await (await mail.waitFor(1))[0]?.parsed();
  const link = parsed?.headers.find(({ key }) => key === 'list-unsubscribe')?.value.slice(1, -1) ?? '';
  const address = `${service.address}${new URL(link).pathname}`;
  const looked = await fetch(address);
  expect(looked.status).toBe(200);
  await processed(project.call, (await send({ category: 'ads', recipients })).body.id);
  await mail.waitFor(2);
  const clicked = await fetch(address, {
    method: 'POST',
    body: 'List-Unsubscribe=One-Click',
    headers: { 'content-type': 'application/x-www-form-urlencoded' },
  });
  expect(clicked.status).toBe(200);
  await processed(project.call, (await send({ category: 'ads', recipients })).body.id);
  await processed(project.call, (await send({ category: 'orders', recipients, title: 'Order' })).body.id);
  const subjects = await Promise.all(
    (await mail.waitFor(3)).map(async (email) => (await email.parsed()).subject),
  );
  expect(subjects).toEqual(['Hello', 'Hello', 'Order']);
});

test('a project without an integration for e-mail sends none, and its broadcasts are processed', async () => {
  const other = await service.createProject(`no mail ${made}`);
  const { body } = await other.call('POST', '/broadcasts', {
    title: 'T',
    recipients: [{ email: 'x@example.com' }],
  });
  expect((await processed(other.call, body.id)).status.summary).toEqual({
    total: 1,
    failures: 0,
    pending: 0,
  });
  expect(mail.received).toEqual([]);
});

test('a changed integration is used from the next delivery on', async () => {
  await processed(project.call, (await send({ recipients: [{ email: 'x@example.com' }] })).body.id);
  await saveSmtp({ from: { email: 'other@example.com' } });
  await processed(project.call, (await send({ recipients: [{ email: 'x@example.com' }] })).body.id);
  expect((await mail.waitFor(2)).map(({ from }) => from)).toEqual(['news@example.com', 'other@example.com']);
});

describe('when sending fails', () => {
  test('a rejected address fails for that user, is reported, and the others get their e-mails', async () => {
    mail.fail({
      at: 'rcpt',
      how: { reply: '550 5.1.1 No such user' },
      when: ({ to }) => to === 'gone@example.com',
    });
    const { body } = await send({
      recipients: [{ email: 'gone@example.com' }, { email: 'here@example.com' }],
    });
    const { status } = await processed(project.call, body.id);
    expect(status.summary).toEqual({ total: 2, failures: 1, pending: 0 });
    expect(status.errors).toHaveLength(1);
    expect(status.errors[0].message).toMatch(
      /^email to user [0-9a-f-]{36} \(g\*\*\*@example\.com\) failed: .*No such user/,
    );
    expect(mail.received.map(({ to }) => to)).toEqual(['here@example.com']);
  });

  test('a transient failure is retried until it works, with the same Message-ID', async () => {
    mail.fail({ at: 'end', how: { reply: '451 4.3.0 Try again' }, times: 2 });
    const { body } = await send({ recipients: [{ email: 'again@example.com' }] });
    const rows = () =>
      service.rows<{ state: string; attempts: number; code: string }>(
        'select state, attempts, code from deliveries where broadcast_id = $1',
        [body.id],
      );
    for (const attempts of [1, 2]) {
      await until(rows, ([row]) => row?.attempts === attempts);
      expect(await rows()).toMatchObject([{ state: 'retrying' }]);
      await until(
        () => project.call('GET', `/broadcasts/${body.id}`),
        ({ body }) => body.status.status === 'processed' && body.status.summary.pending === 1,
      );
      await until(
        () => bringForward().then(rows),
        ([row]) => row?.attempts !== attempts,
      );
    }
    const { status } = await processed(project.call, body.id);
    expect(status.summary).toEqual({ total: 1, failures: 0, pending: 0 });
    expect(await rows()).toMatchObject([{ state: 'sent', attempts: 3 }]);
    expect(mail.received).toHaveLength(1);
  });

  test('a wrong password fails at once and is reported without the password', async () => {
    await saveSmtp({ password: 'wrong horse' });
    const { body } = await send({ recipients: [{ email: 'x@example.com' }] });
    const { status } = await processed(project.call, body.id);
    expect(status.summary).toEqual({ total: 1, failures: 1, pending: 0 });
    expect(status.errors[0].message).toMatch(/535|credentials/i);
    expect(JSON.stringify(status)).not.toContain('wrong horse');
    const events = await service.rows<{ details: string }>(
      'select details from events where project_id = $1',
      [project.id],
    );
    expect(JSON.stringify(events)).not.toContain('wrong horse');
  });

  test('a user who unsubscribes before a retry gets no e-mail, and that is no failure', async () => {
    mail.fail({ at: 'rcpt', how: { reply: '450 4.2.1 Later' }, times: 1 });
    const { body } = await send({ category: 'ads', recipients: [{ email: 'leaver@example.com' }] });
    const states = () =>
      service.rows<{ state: string; user_id: string }>(
        'select state, user_id from deliveries where broadcast_id = $1',
        [body.id],
      );
    const [delivery] = await until(states, ([row]) => row?.state === 'retrying');
    await savePreferences(service.context, {
      projectId: project.id,
      userId: delivery?.user_id ?? '',
      preferences: [{ category: 'ads', channel: 'email', enabled: false }],
    });
    const response = await until(
      () => bringForward().then(() => project.call('GET', `/broadcasts/${body.id}`)),
      ({ body: { status } }) => status.summary.pending === 0,
    );
    expect(response.body.status).toMatchObject({
      summary: { total: 1, failures: 0, pending: 0 },
      errors: null,
    });
    expect(await states()).toMatchObject([{ state: 'skipped' }]);
    expect(mail.received).toEqual([]);
  });

  test('a user whose address was removed meanwhile gets no e-mail, and that is reported', async () => {
    mail.fail({ at: 'rcpt', how: { reply: '450 4.2.1 Later' }, times: 1 });
    const { body } = await send({ recipients: [{ external_id: 'mover', email: 'mover@example.com' }] });
    await until(
      () =>
        service.rows("select 1 from deliveries where broadcast_id = $1 and state = 'retrying'", [body.id]),
      (rows) => rows.length === 1,
    );
    await service.rows("update users set email = null where external_id = 'mover' and project_id = $1", [
      project.id,
    ]);
    await until(
      () => bringForward().then(() => project.call('GET', `/broadcasts/${body.id}`)),
      (response) => response.body.status.summary.pending === 0,
    );
    expect(mail.received).toEqual([]);
    expect(
      await service.rows('select state, code from deliveries where broadcast_id = $1', [body.id]),
    ).toEqual([{ state: 'skipped', code: 'unreachable' }]);
  });
});

test('a thousand users get one e-mail each, and the summary is correct', async () => {
  const recipients = Array.from({ length: 1000 }, (_, index) => ({
    external_id: `${index}`,
    email: `user-${index}@example.com`,
  }));
  const { body } = await send({ recipients });
  const { status } = await processed(project.call, body.id);
  expect(status.summary).toEqual({ total: 1000, failures: 0, pending: 0 });
  expect(new Set(mail.received.map(({ to }) => to)).size).toBe(1000);
  expect(mail.received).toHaveLength(1000);
});

test('the failure of one delivery does not resend the others of its batch', async () => {
  const { db } = service.context;
  await db.query(sql('', "alter table deliveries add constraint poison check (provider_id <> 'poison')"));
  await db.query(
    sql(
      '',
      `create function poison() returns trigger language plpgsql as 'begin
        if (select email from users where id = new.user_id) = ''u7@example.com''
           then new.provider_id = ''poison''; end if;
        return new;
      end'`,
    ),
  );
  await db.query(
    sql('', 'create trigger poison before insert on deliveries for each row execute function poison()'),
  );
  const recipients = Array.from({ length: 30 }, (_, index) => ({ email: `u${index}@example.com` }));
  const sent = await Promise.all(
    [0, 10, 20].map((start) => send({ recipients: recipients.slice(start, start + 10) })),
  );
  try {
    // The poisoned one is retried. Its retry shows that the batch failed and was then done in parts.
    await until(
      () => mail.received.filter((one) => one.to === 'u7@example.com').length,
      (times) => times > 1,
    );
    for (const { body } of sent.slice(1)) await processed(project.call, body.id);
  } finally {
    await db.query(sql('', 'drop function poison() cascade'));
    await db.query(sql('', 'alter table deliveries drop constraint poison'));
  }
  await bringForward();
  for (const { body } of sent) await processed(project.call, body.id);
  const times = Map.groupBy(mail.received, (one) => one.to);
  times.delete('u7@example.com');
  expect(times.size).toBe(29);
  expect([...times.values()].map((mails) => mails.length)).toEqual(Array.from({ length: 29 }, () => 1));
});

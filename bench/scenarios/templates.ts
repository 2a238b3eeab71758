import { join } from 'node:path';
import { sql } from '../../server/src/db/client.ts';
import { openTemplates } from '../../server/src/domain/line/rendering/templates.ts';
import { loadUserData } from '../../server/src/domain/line/routing/condition-data.ts';
import { type Belfry, startBelfry } from '../support/belfry.ts';
import { costOf, showCost } from '../support/cost.ts';
import { cpuOf, used } from '../support/processes.ts';
import type { Bench, Scenario } from '../support/scenario.ts';

const LOCALES = ['en', 'de', 'es', 'fr', 'ja'];
const RECIPIENTS = 1_000;
/** A broadcast with a template may cost twice a plain one. */
const AIM = 2;

const users = Array.from({ length: RECIPIENTS }, (_, index) => ({
  external_id: `user-${index}`,
  first_name: `Name ${index}`,
  locale: LOCALES[index % LOCALES.length],
}));
const recipients = users.map(({ external_id }) => ({ external_id }));

const TEXTS: [string, { title: string; content: string }][] = [
  ['a text for each locale', { title: 'Order {{ data.number }}', content: '<p>It is on its way.</p>' }],
  [
    'a text for each user',
    { title: 'Order {{ data.number }}', content: '<p>{{ user.first_name }}, it is on its way.</p>' },
  ],
];

const PAGE = 50;

/**
 * (templates) Broadcasts with a template to 1,000 users with five locales, in CPU time of the server against
 * plain ones to the same users. Then pages of such notifications, and what rendering them on read would take.
 */
export const measureTemplates: Scenario = async (bench) => {
  const belfry = await startBelfry({ ...bench, dataDir: join(bench.dataDir, 'templates') });
  try {
    const count = bench.quick ? 50 : 300;
    expect(await belfry.call('POST', '/users/import', { users }), 202);
    const plain = { title: 'Order 12345', content: '<p>It is on its way.</p>' };
    await send(belfry, 10, plain);
    await costOf(belfry, count, () => send(belfry, count, plain)); // warms up
    const broadcast = await costOf(belfry, count, () => send(belfry, count, plain));
    showCost(bench, 'a plain broadcast to 1,000 users', broadcast);
    await measurePage(bench, belfry, 'plain notifications');
    for (const [name, text] of TEXTS) {
      const locales = Object.fromEntries(LOCALES.map((locale) => [locale, text]));
      expect(await belfry.call('PUT', '/templates/order', { default_locale: 'en', locales }), 200);
      const template = { key: 'order', data: { number: 12_345 } };
      await send(belfry, 10, { template });
      const cost = await costOf(belfry, count, () => send(belfry, count, { template }));
      showCost(bench, `the same with a template and ${name}`, cost);
      bench.figure({
        name: `a template with ${name}: CPU, of that of a plain broadcast`,
        value: cost.micros / broadcast.micros,
        unit: 'times',
        aim: { value: AIM, better: 'less' },
      });
    }
    await measurePage(bench, belfry, 'notifications with a text for each user');
    await measureOnRead(bench, belfry);
  } finally {
    await belfry.stop();
  }
};

async function send(belfry: Belfry, count: number, message: object): Promise<void> {
  for (let at = 0; at < count; at += 1)
    expect(await belfry.call('POST', '/broadcasts', { ...message, recipients }), 201);
}

async function measurePage(bench: Bench, belfry: Belfry, of: string): Promise<void> {
  const jwt = belfry.userJwt('user-0');
  const read = async (pages: number) => {
    for (let at = 0; at < pages; at += 1)
      expect(await belfry.call('GET', `/notifications?limit=${PAGE}`, undefined, jwt), 200);
  };
  const pages = bench.quick ? 100 : 1_000;
  await read(pages);
  showCost(bench, `a page of ${PAGE} ${of}`, await costOf(belfry, pages, () => read(pages)));
}

/** Renders the texts of a page with what a server would load for it: the user, and the broadcasts. */
async function measureOnRead(bench: Bench, { db, projectId, pid }: Belfry): Promise<void> {
  const [user] = await db.query<{ id: string }>(
    sql('bench_reader', "select user_id as id from user_keys where value = 'user-0'"),
  );
  const latest = sql(
    'bench_latest_templates',
    `select id, project_id as "projectId", template from broadcasts order by id desc limit ${PAGE}`,
  );
  const project = { id: projectId, name: 'bench', logo_url: null };
  const render = async () => {
    const rows = await db.query<Parameters<typeof openTemplates>[1][number]>(latest);
    const templates = await openTemplates(db, rows);
    const data = (await loadUserData(db, [user?.id ?? ''])).get(user?.id ?? '') ?? null;
    for (const { template, data: of } of templates.values()) {
      const texts = await template.forLocale(data?.locale ?? null, null);
      texts.render('in_app', { user: data, data: of, project, unsubscribe_url: '', preferences_url: '' });
    }
  };
  const pages = bench.quick ? 100 : 1_000;
  for (let at = 0; at < pages; at += 1) await render();
  const before = { own: process.cpuUsage(), server: cpuOf(pid) };
  for (let at = 0; at < pages; at += 1) await render();
  const { user: own, system } = process.cpuUsage(before.own);
  const { postgresCpuMs } = used(before.server, cpuOf(pid));
  bench.figure({
    name: `rendering the texts of a page of ${PAGE} on read`,
    value: (own + system + postgresCpuMs * 1_000) / pages,
    unit: 'µs of CPU',
    note: `Node ${((own + system) / pages).toFixed(0)}`,
  });
}

function expect({ status, body }: { status: number; body: unknown }, wanted: number): void {
  if (status !== wanted) throw new Error(`a request returned ${status}: ${JSON.stringify(body)}`);
}

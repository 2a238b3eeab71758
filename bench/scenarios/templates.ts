import { join } from 'node:path';
import { type Belfry, startBelfry } from '../support/belfry.ts';
import { costOf, showCost } from '../support/cost.ts';
import type { Scenario } from '../support/scenario.ts';

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

/**
 * (templates) Broadcasts with a template to 1,000 users with five locales, in CPU time of the server against
 * plain ones to the same users.
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
  } finally {
    await belfry.stop();
  }
};

async function send(belfry: Belfry, count: number, message: object): Promise<void> {
  for (let at = 0; at < count; at += 1)
    expect(await belfry.call('POST', '/broadcasts', { ...message, recipients }), 201);
}

function expect({ status, body }: { status: number; body: unknown }, wanted: number): void {
  if (status !== wanted) throw new Error(`a request returned ${status}: ${JSON.stringify(body)}`);
}

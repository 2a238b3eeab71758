import { afterAll, beforeAll, expect, test } from 'vitest';
import { processed, startTestService, type TestService } from '../support/service.ts';

let service: TestService;

beforeAll(async () => {
  service = await startTestService();
});
afterAll(() => service.stop());

const metrics = async (path = '') => (await service.project.v1('GET', `/metrics${path}`)).body;
const schema = (name: string, type: string) => ({
  metric: [
    { entity: 'broadcasts', operation: 'count' },
    { entity: 'recipients', operation: 'sum' },
  ],
  label: { name, type },
});

test('metrics count the broadcasts and recipients of a project by day, category and topic', async () => {
  const { call } = service.project;
  const other = await service.createProject('other');
  for (const [send, category, topic, users] of [
    [call, 'news', null, 2],
    [call, 'news', 't', 1],
    [call, null, 't', 3],
    [other.call, 'theirs', 'theirs', 1],
  ] as const) {
    const recipients = Array.from({ length: users }, (_, index) => ({ external_id: `u${index}` }));
    const sent = await send('POST', '/broadcasts', { title: 'T', category, topic, recipients });
    await processed(send, sent.body.id);
  }
  const days = await metrics();
  expect(days.schema).toEqual(schema('day', 'timestamp'));
  expect(days.labels).toHaveLength(30);
  expect(days.labels.every((label: string) => /^\d{4}-\d\d-\d\dT00:00:00.000Z$/.test(label))).toBe(true);
  expect(days.metrics.slice(0, 28)).toEqual(Array(28).fill([0, 0]));
  // The day may have changed since the broadcasts were sent.
  const [before = [0, 0], today = [0, 0]] = days.metrics.slice(28);
  expect([before[0] + today[0], before[1] + today[1]]).toEqual([3, 6]);
  expect(await metrics('/categories')).toEqual({
    metrics: [
      [2, 3],
      [1, 3],
    ],
    labels: ['news', 'uncategorized'],
    schema: schema('category', 'string'),
  });
  expect(await metrics('/topics')).toEqual({
    metrics: [[2, 4]],
    labels: ['t'],
    schema: schema('topic', 'string'),
  });
});

test('metrics add up more recipients than an integer of the database holds', async () => {
  const large = await service.createProject('large');
  const recipients = [{ external_id: 'ada' }];
  for (const title of ['one', 'two']) {
    const sent = await large.call('POST', '/broadcasts', { title, category: 'news', topic: 't', recipients });
    await processed(large.call, sent.body.id);
  }
  await service.rows('update broadcasts set total = 2000000000 where project_id = $1', [large.id]);
  for (const path of ['', '/categories', '/topics']) {
    const { body } = await large.v1('GET', `/metrics${path}`);
    const sum = body.metrics.reduce((all: number, [, recipients]: [number, number]) => all + recipients, 0);
    expect([path, sum]).toEqual([path, 4_000_000_000]);
  }
});

test('metrics need the API secret; without the API key, they are those of Prometheus', async () => {
  expect((await service.project.v1As('ada')('GET', '/metrics')).codes).toEqual(['api_secret_not_provided']);
  const prometheus = await service.request('GET', '/metrics');
  expect(prometheus.headers.get('content-type')).toContain('text/plain');
});

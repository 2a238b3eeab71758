import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startTestService, type TestService } from '../support/service.ts';

// The examples of docs/guides/templates.md run, in their order.

const guide = readFileSync(new URL('../../../docs/guides/templates.md', import.meta.url), 'utf8');
const EXAMPLE = /^curl .*?(?=^```)/gms;

let service: TestService;

beforeAll(async () => {
  service = await startTestService();
});
afterAll(() => service?.stop());

test('the examples of the guide run', async () => {
  const statuses: string[] = [];
  for (const [example] of guide.matchAll(EXAMPLE)) {
    const [, json] = /-d '(\{.*\})'/s.exec(example) ?? [];
    const [, method = json === undefined ? 'GET' : 'POST'] = /-X (\w+)/.exec(example) ?? [];
    const [, path = ''] = /localhost:3000\/v2(\S+)/.exec(example) ?? [];
    const { status, messages } = await service.project.call(method, path, json && JSON.parse(json));
    statuses.push([method, path, status, ...messages].join(' '));
  }
  expect(statuses).toEqual([
    'PUT /templates/order-sent 200',
    'POST /broadcasts 201',
    'PUT /templates/footer 200',
    'PUT /templates/main 200',
    'POST /templates/order-sent/preview 200',
  ]);
});

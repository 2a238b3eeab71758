import { afterAll, beforeAll, expect, test } from 'vitest';
import { startTestService, type TestService } from '../support/service.ts';

let service: TestService;

beforeAll(async () => {
  service = await startTestService();
});
afterAll(() => service?.stop());

const NONE = { display_name: null, logo_url: null, default_locale: null, hmac_required: true };

test('settings are saved one by one, and null clears', async () => {
  const { id, apiKey, call } = await service.createProject('the shop');
  const save = async (body: object) => (await call('PUT', '/project', body)).body;
  const read = async () => (await call('GET', '/project')).body;
  expect(await read()).toEqual({ id, name: 'the shop', api_key: apiKey, ...NONE });
  expect(await save({ display_name: 'The Shop' })).toEqual({ ...NONE, display_name: 'The Shop' });
  const shown = {
    display_name: 'The Shop',
    logo_url: 'https://shop.example/logo.png',
    default_locale: 'pt-BR',
  };
  const others = { logo_url: shown.logo_url, default_locale: 'pt-br' };
  expect(await save(others)).toEqual({ ...NONE, ...shown });
  expect(await read()).toEqual({ id, name: 'the shop', api_key: apiKey, ...NONE, ...shown });
  expect(await save({ hmac_required: false, logo_url: null })).toEqual({
    ...shown,
    logo_url: null,
    hmac_required: false,
  });
});

test('a change is an event with all settings, and a repeat is none', async () => {
  const { call } = await service.createProject('events');
  for (const display_name of ['A', 'A', null, null]) await call('PUT', '/project', { display_name });
  const { body } = await call('GET', '/events?type=project.saved');
  expect(body.data.map(({ payload }: { payload: object }) => payload)).toEqual([
    NONE,
    { ...NONE, display_name: 'A' },
  ]);
});

test('concurrent changes of different settings are all saved', async () => {
  const { call } = await service.createProject('concurrent');
  const changes = [{ display_name: 'A' }, { logo_url: 'https://x.example/' }, { default_locale: 'de' }];
  await Promise.all(changes.map((change) => call('PUT', '/project', change)));
  expect((await call('GET', '/project')).body).toMatchObject(Object.assign({}, ...changes));
});

test.each([
  [{}, '(root)'],
  [{ name: 'x' }, "doesn't allow key: name"],
  [{ hmac_required: null }, 'hmac_required'],
  [{ display_name: '' }, 'display_name'],
  [{ display_name: 'x'.repeat(256) }, 'display_name'],
  [{ logo_url: 'http://x.example/logo.png' }, "Param 'logo_url' must be an https URL"],
  [{ logo_url: 'javascript:alert(1)' }, "Param 'logo_url' must be an https URL"],
  [{ logo_url: 'https://x.example/a"b' }, "Param 'logo_url' must be an https URL"],
  [{ logo_url: 'https://x.example;sandbox/' }, "Param 'logo_url' must be an https URL"],
  [{ logo_url: 'https://ada@x.example/' }, "Param 'logo_url' must be an https URL"],
  [{ logo_url: '/logo.png' }, "Param 'logo_url' must be an https URL"],
  [{ default_locale: 'de_DE' }, "Param 'default_locale' must be a BCP 47 language tag, such as de or pt-BR"],
])('%j is rejected', async (body, problem) => {
  const { call } = service.project;
  const response = await call('PUT', '/project', body);
  expect(response.status).toBe(422);
  expect(response.body.errors[0].message).toContain(problem);
});

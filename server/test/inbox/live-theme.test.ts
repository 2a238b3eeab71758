import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { type Service, startService } from '../../src/app.ts';
import { openSocket, openStream, openStreamSocket, titles } from '../support/realtime.ts';
import { startTestService, type TestProject, type TestService } from '../support/service.ts';

let service: TestService;
let second: Service;

// Two servers on one database: the inboxes are open on both.
beforeAll(async () => {
  service = await startTestService();
  const { config, log } = service.context;
  second = await startService(config, { log });
});
afterAll(async () => {
  await second?.stop();
  await service?.stop();
});

const images = { emptyInboxUrl: 'https://a.example/empty.png' };
const configOf = (locale: string) => ({ images, locale, theme: null });
const NONE = { images: null, locale: null, theme: null };

/** Opens a stream of each kind for a user, each on another server. */
async function openInboxes(project: TestProject, name: string) {
  const jwt = project.userJwt({ user_external_id: name });
  const streams = [
    await openStreamSocket(service.address, { jwt }),
    await openStream(`${second.address}/v2/notifications/stream`, { jwt }),
  ];
  onTestFinished(() => {
    for (const { source } of streams) source.close();
  });
  const expectThemes = async (themes: object[]) => {
    for (const stream of streams) await expect.poll(() => stream.themes).toEqual(themes);
  };
  return { streams, expectThemes };
}

test('every open inbox of a project gets the config when it is saved or deleted, and no other', async () => {
  const [project, other] = [await service.createProject('one'), await service.createProject('other')];
  const [ada, lin] = [await openInboxes(project, 'ada'), await openInboxes(project, 'lin')];
  const stranger = await openInboxes(other, 'ada');
  await project.call('PUT', '/integrations/inbox', configOf('de'));
  for (const inboxes of [ada, lin]) await inboxes.expectThemes([configOf('de')]);
  await project.call('PUT', '/integrations/sendgrid', { api_key: 'key' });
  await project.call('DELETE', '/integrations/inbox');
  for (const inboxes of [ada, lin]) await inboxes.expectThemes([configOf('de'), NONE]);
  await other.call('PUT', '/integrations/inbox', configOf('ja'));
  await stranger.expectThemes([configOf('ja')]);
});

test("a user's own config is sent to that user alone, and stays when the project saves one", async () => {
  const project = await service.createProject('own');
  const [ada, lin] = [await openInboxes(project, 'ada'), await openInboxes(project, 'lin')];
  await project.as('ada')('PUT', '/integrations/inbox/installations', { locale: 'fr' });
  const own = { ...NONE, locale: 'fr' };
  await ada.expectThemes([own]);
  await project.call('PUT', '/integrations/inbox', configOf('de'));
  await ada.expectThemes([own, own]);
  await lin.expectThemes([configOf('de')]);
});

test('the last of many saved at once is the last that arrives', async () => {
  const project = await service.createProject('many');
  const ada = await openInboxes(project, 'ada');
  const locales = ['de', 'en', 'es', 'fr', 'ja', 'ar'];
  await Promise.all(locales.map((locale) => project.call('PUT', '/integrations/inbox', configOf(locale))));
  const saved = (await project.call('GET', '/integrations/inbox')).body.data[0].config;
  for (const stream of ada.streams) await expect.poll(() => stream.themes.at(-1)).toEqual(saved);
});

test('the WebSocket with an inbox token does not get it, and a resume does not repeat it', async () => {
  const project = await service.createProject('published');
  const token = `published-${'t'.repeat(64)}`;
  await project.as('ada')('PUT', '/channels/in_app/inbox/tokens', { token });
  const url = `${service.address.replace('http', 'ws')}/?api_key=${project.apiKey}&token=${token}`;
  const socket = await openSocket(url);
  onTestFinished(() => socket.socket.terminate());
  const { streams, expectThemes } = await openInboxes(project, 'ada');
  await project.call('PUT', '/integrations/inbox', configOf('de'));
  await expectThemes([configOf('de')]);
  const jwt = project.userJwt({ user_external_id: 'ada' });
  const lastEventId = streams[0]?.lastEventId() ?? '';
  const resumed = await openStreamSocket(service.address, { jwt, lastEventId });
  onTestFinished(() => resumed.source.close());
  await project.call('POST', '/broadcasts', { title: 'Hello', recipients: [{ external_id: 'ada' }] });
  for (const { frames } of [socket, ...streams]) await expect.poll(() => titles(frames)).toEqual(['Hello']);
  await expect.poll(() => titles(resumed.frames)).toEqual(['Hello']);
  expect([resumed.themes, resumed.resyncs]).toEqual([[], 0]);
});

test('a config that is too large for thousands of connections is not sent', async () => {
  const project = await service.createProject('large');
  const ada = await openInboxes(project, 'ada');
  const large = { ...configOf('de'), images: { emptyInboxUrl: `https://a.example/${'x'.repeat(70_000)}` } };
  expect((await project.call('PUT', '/integrations/inbox', large)).status).toBe(200);
  await project.call('PUT', '/integrations/inbox', configOf('en'));
  // The config is read when it is sent: that may have been after the second was saved, both times.
  for (const { themes } of ada.streams) {
    await expect.poll(() => themes.length).toBeGreaterThan(0);
    for (const theme of themes) expect(theme).toEqual(configOf('en'));
  }
});

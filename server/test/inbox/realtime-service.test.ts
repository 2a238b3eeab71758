import { once } from 'node:events';
import { request } from 'node:http';
import { afterAll, beforeAll, expect, onTestFinished, test, vi } from 'vitest';
import { openSocket, openStream, Refused, titles } from '../support/realtime.ts';
import { processed, startTestService, type TestService } from '../support/service.ts';

let service: TestService;

beforeAll(async () => {
  service = await startTestService();
});
afterAll(() => service.stop());

const streamUrl = () => `${service.address}/v2/notifications/stream`;
const token = 'a'.repeat(63);

test('every open inbox of a user shows a broadcast, and reading it in one updates the other', async () => {
  const { project } = service;
  const user = project.as('ada');
  await user('PUT', '/channels/in_app/inbox/tokens', { token: `${token}1` });
  const url = `${service.address.replace('http', 'ws')}/?api_key=${project.apiKey}&token=${token}1`;
  const [socket, stream] = [
    await openSocket(url),
    await openStream(streamUrl(), { jwt: project.userJwt({ user_external_id: 'ada' }) }),
  ];
  onTestFinished(() => stream.source.close());
  await project.call('POST', '/broadcasts', { title: 'Hello', recipients: [{ external_id: 'ada' }] });
  for (const { frames } of [socket, stream])
    await vi.waitFor(() => expect(titles(frames)).toEqual(['Hello']));
  const id = socket.frames[0]?.data.id ?? '';
  const { body } = await user('GET', `/notifications/${id}`);
  expect(socket.frames[0]?.data.notification).toEqual(body);
  await user('POST', `/notifications/${id}/read`, undefined, { 'x-service-client-id': 'tab' });
  for (const { frames } of [socket, stream]) {
    await vi.waitFor(() =>
      expect(frames[1]).toMatchObject({ name: 'notifications/read', data: { id, client_id: 'tab' } }),
    );
  }
  const { body: list } = await user('GET', '/channels/in_app/inbox/tokens');
  await user('DELETE', `/channels/in_app/inbox/tokens/${list.data[0].id}`);
  expect((await socket.closed).code).toBe(4001);
  await expect(openSocket(url)).rejects.toEqual(new Refused(401));
});

test('a stream needs a User JWT in the header, and ends when that expires', async () => {
  const { project } = service;
  const jwt = project.userJwt({ user_external_id: 'ada' });
  const open = async (url: string, authorization?: string) => {
    const call = request(url, {
      headers: { origin: 'https://example.com', ...(authorization ? { authorization } : {}) },
    });
    const [response] = (await once(call.end(), 'response')) as [import('node:http').IncomingMessage];
    onTestFinished(() => {
      response.on('error', () => {}).destroy();
    });
    return response;
  };
  expect((await open(streamUrl())).statusCode).toBe(401);
  expect((await open(`${streamUrl()}?access_token=${jwt}`)).statusCode).toBe(401);
  expect((await open(streamUrl(), `Bearer ${project.jwt}`)).statusCode).toBe(403);
  const response = await open(streamUrl(), `Bearer ${jwt}`);
  expect(response.statusCode).toBe(200);
  expect(response.headers['access-control-allow-origin']).toBe('*');
  expect(response.headers['content-type']).toContain('text/event-stream');
});

test('a client misses nothing in a restart of the whole service', async () => {
  const { project } = service;
  const jwt = project.userJwt({ user_external_id: 'grace' });
  const before = await openStream(streamUrl(), { jwt });
  const send = (title: string) =>
    project.call('POST', '/broadcasts', { title, recipients: [{ external_id: 'grace' }] });
  await send('one');
  await vi.waitFor(() => expect(titles(before.frames)).toEqual(['one']));
  const ended = once(before.source, 'error');
  await service.restart();
  await ended;
  before.source.close();
  // Two consecutive broadcasts may be fanned out concurrently; this one has arrived before the client
  // reconnects.
  await processed(project.call, (await send('two')).body.id);
  const after = await openStream(streamUrl(), { jwt, lastEventId: before.lastEventId() });
  onTestFinished(() => after.source.close());
  await send('three');
  await vi.waitFor(() => expect(after.frames.length).toBeGreaterThanOrEqual(2));
  expect(titles(after.frames)).toEqual(['two', 'three']);
});

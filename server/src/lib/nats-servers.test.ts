import { expect, test } from 'vitest';
import { natsServers } from './nats-servers.ts';

test('addresses with a user, a token or neither', () => {
  expect(natsServers('nats://nats')).toEqual({ servers: ['nats:4222'], tls: false });
  expect(natsServers('tls://a%40b:p%3Aw%2C@one:1, tls://two')).toEqual({
    ...{ servers: ['one:1', 'two:4222'], tls: true },
    ...{ user: 'a@b', pass: 'p:w,' },
  });
  expect(natsServers('nats://secret@[::1]:5')).toEqual({
    ...{ servers: ['[::1]:5'], tls: false },
    token: 'secret',
  });
});

test.each([
  'nats',
  'http://secret@host',
  'nats://',
  'nats://secret@one,',
  'nats://secret@one,tls://two',
  'nats://secret@one,nats://other@two',
  'nats://:secret@one',
  'nats://a:secret%@one',
  'nats://secret@one/path',
  'nats://secret@one?tls=1',
])('%s is rejected without its secret', (text) => {
  let message = '';
  try {
    natsServers(text);
  } catch (error) {
    message = (error as Error).message;
  }
  expect(message).not.toBe('');
  expect(message).not.toContain('secret');
});

import { connect } from 'node:net';
import { text } from 'node:stream/consumers';
import { EventSource } from 'eventsource';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { EVENT_TYPES, type Event } from '../../src/contract/event.ts';
import { sql } from '../../src/db/client.ts';
import { recordEvents } from '../../src/domain/ground/events/record.ts';
import { issueToken, revokeToken } from '../../src/domain/setup/projects/tokens.ts';
import { newId } from '../../src/lib/ids.ts';
import { startTestService, type TestProject, type TestService, until } from '../support/service.ts';

let service: TestService;
beforeAll(async () => {
  service = await startTestService();
});
afterAll(() => service?.stop());

interface Stream {
  source: EventSource;
  events: Event[];
  resyncs: number;
  lastEventId: string;
}

const streams: EventSource[] = [];
afterAll(() => {
  for (const source of streams) source.close();
});

/** Opens a stream and waits until it is open. */
async function open(
  of: { jwt: string },
  { query = '', lastEventId = '' }: { query?: string; lastEventId?: string } = {},
): Promise<Stream> {
  const stream: Stream = { source: undefined as never, events: [], resyncs: 0, lastEventId };
  stream.source = new EventSource(`${service.address}/v2/events/stream${query}`, {
    fetch: (input, init) =>
      fetch(input, {
        ...init,
        headers: {
          ...(lastEventId === '' ? {} : { 'last-event-id': lastEventId }),
          ...init.headers,
          authorization: `Bearer ${of.jwt}`,
        },
      }),
  });
  streams.push(stream.source);
  for (const type of EVENT_TYPES) {
    stream.source.addEventListener(type, (message) => {
      stream.lastEventId = message.lastEventId;
      stream.events.push(JSON.parse(message.data));
    });
  }
  stream.source.addEventListener('resync', () => {
    stream.resyncs += 1;
  });
  await new Promise<void>((resolve, reject) => {
    stream.source.addEventListener('open', () => resolve(), { once: true });
    stream.source.addEventListener('error', (error) => reject(error), { once: true });
  });
  return stream;
}

/**
 * Records a row of this many events, in the caller's transaction if there is one. Returns a name that
 * identifies them.
 */
async function record(
  of: { id: string },
  size = 1,
  tx: Parameters<typeof recordEvents>[0] = service.context.db,
) {
  const name = newId();
  await recordEvents(tx, [
    {
      projectId: of.id,
      type: 'user.updated',
      userIds: Array.from({ length: size }, newId),
      details: { payload: { name } },
    },
  ]);
  return name;
}
const names = (events: readonly Event[]) => events.map(({ payload }) => payload?.name);
const nothingTwice = (events: readonly Event[]) =>
  expect(new Set(events.map(({ id }) => id)).size).toBe(events.length);

describe('live', () => {
  test('each event is sent once, as in the list, with its type as the SSE event name', async () => {
    const of = await service.createProject('live');
    const stream = await open(of);
    await of.call('PUT', '/users', { external_id: 'ada' });
    const name = await record(of, 3);
    await until(
      () => stream.events.length,
      (count) => count >= 4,
    );
    const listed = (await of.call('GET', '/events')).body.data as Event[];
    expect(stream.events).toEqual(listed.reverse());
    expect(names(stream.events).slice(1)).toEqual([name, name, name]);
  });

  test('another project does not get it', async () => {
    const [mine, theirs] = [await service.createProject('mine'), await service.createProject('theirs')];
    const [here, there] = [await open(mine), await open(theirs)];
    const name = await record(mine);
    await record(theirs);
    await until(
      () => [here.events.length, there.events.length],
      (counts) => counts.every((count) => count === 1),
    );
    expect(names(here.events)).toEqual([name]);
    expect(names(there.events)).not.toContain(name);
  });

  test('only the requested types are sent', async () => {
    const of = await service.createProject('types');
    const stream = await open(of, { query: '?type=user.*' });
    await recordEvents(service.context.db, [{ projectId: of.id, type: 'webhook.saved' }]);
    const name = await record(of);
    await until(
      () => stream.events.length,
      (count) => count >= 1,
    );
    expect(names(stream.events)).toEqual([name]);
    expect((await of.call('GET', '/events/stream?type=user.gone')).status).toBe(422);
  });
});

describe('no gap', () => {
  test('an event that is committed after a later one is sent nevertheless', async () => {
    const of = await service.createProject('commits');
    const stream = await open(of);
    const release = Promise.withResolvers<void>();
    const written = Promise.withResolvers<string>();
    const slow = service.context.db.transaction(async (tx) => {
      written.resolve(await record(of, 2, tx));
      await release.promise;
    });
    const early = await written.promise;
    const later = [await record(of), await record(of, 2)];
    // Committed, but not sent before no earlier event can follow.
    await until(
      async () => (await of.call('GET', '/events')).body.data.length,
      (count) => count === 3,
    );
    expect(stream.events).toEqual([]);
    release.resolve();
    await slow;
    await until(
      () => stream.events.length,
      (count) => count >= 5,
    );
    expect(names(stream.events)).toEqual([early, early, later[0], later[1], later[1]]);
    nothingTwice(stream.events);
  });

  test('concurrent writers, and clients that disconnect and reconnect, miss and repeat nothing', async () => {
    const of = await service.createProject('chaos');
    let recorded: unknown[] = [];
    let breaks = 0;
    const writer = async () => {
      // Writes until the reader has disconnected three times, but not forever.
      for (let count = 0; count < 60 || (breaks < 3 && count < 2_000); count += 1) {
        const size = 1 + (count % 4);
        const name = await service.context.db.transaction(async (tx) => {
          const mine = await record(of, size, tx);
          if (count % 2 === 0) await tx.query(sql('test_pause', 'select pg_sleep(0.02)'));
          return mine;
        });
        recorded = recorded.concat(Array.from({ length: size }, () => name));
      }
    };
    const received: Event[] = [];
    let stream = await open(of);
    let done = false;
    const writing = Promise.all(Array.from({ length: 4 }, writer)).finally(() => {
      done = true;
    });
    while (!done) {
      await until(
        () => done || stream.events.length >= 10,
        (enough) => enough,
      );
      const { lastEventId } = stream;
      stream.source.close();
      received.push(...stream.events.splice(0));
      stream = await open(of, { lastEventId });
      breaks += 1;
    }
    await writing;
    expect(breaks).toBeGreaterThan(2);
    await until(
      () => received.length + stream.events.length,
      (count) => count >= recorded.length,
    );
    received.push(...stream.events);
    nothingTwice(received);
    expect(names(received).sort()).toEqual([...recorded].sort());
  });
});

describe('coming back', () => {
  test('with the id of any event, or in the middle of a row, the rest is sent', async () => {
    const of = await service.createProject('resume');
    for (const size of [2, 5, 1]) await record(of, size);
    const all = ((await of.call('GET', '/events')).body.data as Event[]).reverse();
    for (const from of all.keys()) {
      const stream = await open(of, { lastEventId: all[from]?.id ?? '' });
      await until(
        () => stream.events.length,
        (count) => count >= all.length - from - 1,
      );
      expect(stream.events).toEqual(all.slice(from + 1));
      expect(stream.resyncs).toBe(0);
      stream.source.close();
    }
  });

  test('large rows are sent in parts, and skipped events between them advance the id', async () => {
    const of = await service.createProject('large rows');
    await record(of);
    const [first] = (await of.call('GET', '/events')).body.data as Event[];
    let total = 0;
    for (const size of [700, 1, 1_000, 400, 1, 1_000, 3]) {
      await recordEvents(service.context.db, [{ projectId: of.id, type: 'token.saved' }]);
      await record(of, size);
      total += size;
    }
    const stream = await open(of, { lastEventId: first?.id ?? '', query: '?type=user.updated' });
    await until(
      () => stream.events.length,
      (count) => count >= total,
    );
    expect(stream.events).toHaveLength(total);
    nothingTwice(stream.events);
    expect(stream.events.every(({ type }) => type === 'user.updated')).toBe(true);
  });

  test('a client that reconnects before its first event gets what it missed', async () => {
    const of = await service.createProject('before the first');
    const response = await fetch(`${service.address}/v2/events/stream`, {
      headers: { authorization: `Bearer ${of.jwt}` },
    });
    const reader = response.body?.getReader();
    const head = new TextDecoder().decode((await reader?.read())?.value);
    await reader?.cancel();
    const name = await record(of);
    const stream = await open(of, { lastEventId: /^id: (.+)$/m.exec(head)?.[1] ?? '' });
    await until(
      () => stream.events.length,
      (count) => count >= 1,
    );
    expect(names(stream.events)).toEqual([name]);
  });

  test('events that are no longer available are reported, and later ones are sent', async () => {
    const of = await service.createProject('resync');
    await record(of);
    const past = '9000000000000000000';
    for (const lastEventId of ['nonsense', newId(), `1.${newId()}`, `${past}.${newId()}`, '../../etc']) {
      const stream = await open(of, { lastEventId });
      const name = await record(of);
      await until(
        () => names(stream.events),
        (received) => received.includes(name),
      );
      expect([lastEventId, stream.resyncs]).toEqual([lastEventId, 1]);
      stream.source.close();
    }
  });

  test('an id from another server is recognised by its event', async () => {
    const of = await service.createProject('restored');
    await record(of);
    const [known] = (await of.call('GET', '/events')).body.data as Event[];
    const name = await record(of);
    const stream = await open(of, { lastEventId: `9000000000000000000.${known?.id}` });
    await until(
      () => stream.events.length,
      (count) => count >= 1,
    );
    expect([names(stream.events), stream.resyncs]).toEqual([[name], 0]);
  });
});

describe.each(['/events/stream', '/notifications/stream'])('HEAD %s', (path) => {
  test('returns the headers of a stream, and starts none', async () => {
    const jwt = path.startsWith('/events')
      ? service.project.jwt
      : service.project.userJwt({ user_external_id: 'ada' });
    const { port, hostname } = new URL(service.address);
    const socket = connect(Number(port), hostname);
    socket.write(
      `HEAD /v2${path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer ${jwt}\r\n\r\n`,
    );
    const response = await text(socket);
    expect(response).toMatch(/^HTTP\/1\.1 200 /);
    expect(response).toMatch(/^content-type: text\/event-stream/m);
    expect(response).toMatch(/^cache-control: no-store/m);
    expect(response).not.toMatch(/^(content-length|transfer-encoding):/im);
    expect(response.indexOf('\r\n\r\n')).toBe(response.length - 4);
  });
});

describe('the end', () => {
  test('a stream ends when its token is revoked, and cannot be opened again', async () => {
    const of = await service.createProject('revoked');
    const issued = await issueToken(service.context, { projectId: of.id, name: 'short' });
    const stream = await open({ jwt: issued?.token ?? '' });
    const failed = new Promise((resolve) => stream.source.addEventListener('error', resolve));
    await revokeToken(service.context, issued?.issued.jti ?? '');
    await failed;
    await until(
      () => stream.source.readyState,
      (state) => state === EventSource.CLOSED,
    );
  });

  test('a caller that is no project is rejected', async () => {
    const of: TestProject = await service.createProject('refused');
    expect((await of.as('ada')('GET', '/events/stream')).status).toBe(403);
    expect((await fetch(`${service.address}/v2/events/stream`)).status).toBe(401);
  });
});

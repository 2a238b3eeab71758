import { setTimeout as delay } from 'node:timers/promises';
import { broadcastBody, randomIds } from '../support/broadcast-body.ts';
import { Connection, requestBytes } from '../support/connection.ts';
import type { Load, LoadResult } from '../support/load.ts';
import { percentile } from '../support/statistics.ts';
import { serveTask } from '../support/task.ts';

// Sends broadcasts: as fast as the server responds, at a steady rate, or a given list once.

type Request =
  | (Load & { perSecond?: number })
  | { address: string; jwt: string; bodies: string[]; connections: number };

const TICK_MS = 2;

serveTask<Request>(async (request) => {
  const connections = Array.from({ length: request.connections }, () => new Connection(request.address));
  const requests =
    'bodies' in request ? request.bodies.map((body) => toRequest(request.jwt, body)) : made(request);
  const result =
    'bodies' in request
      ? await sendEach(connections, requests)
      : request.perSecond === undefined
        ? await sendFor(connections, requests, request.durationMs)
        : await sendAtRate(connections, requests, request.durationMs, request.perSecond);
  for (const connection of connections) connection.close();
  return result;
});

function toRequest(jwt: string, body: string): Buffer {
  return requestBytes({ method: 'POST', path: '/v2/broadcasts', jwt, body });
}

function made({ jwt, recipients, users, prefix, described, v1 }: Load): Buffer[] {
  const count = recipients > 10 ? 64 : 2_000;
  return Array.from({ length: count }, () => {
    const body = broadcastBody(randomIds(prefix, users, recipients), described);
    if (v1 === undefined) return toRequest(jwt, body);
    // Version 1 accepts the token, too.
    return requestBytes({ method: 'POST', path: '/notifications', jwt, body: `{"notification":${body}}` });
  });
}

class Recorder {
  readonly #startedMs = performance.now();
  readonly #latenciesMs: number[] = [];
  #errors = 0;

  async send(connection: Connection, request: Buffer): Promise<void> {
    const startedMs = performance.now();
    const status = await connection.send(request);
    this.#latenciesMs.push(performance.now() - startedMs);
    if (status !== 201) this.#errors += 1;
  }

  result(): LoadResult {
    const seconds = (performance.now() - this.#startedMs) / 1000;
    const requests = this.#latenciesMs.length;
    return {
      requests,
      perSecond: requests / seconds,
      errors: this.#errors,
      p50Ms: percentile(this.#latenciesMs, 50),
      p99Ms: percentile(this.#latenciesMs, 99),
    };
  }
}

async function sendEach(
  connections: readonly Connection[],
  requests: readonly Buffer[],
): Promise<LoadResult> {
  const recorder = new Recorder();
  const waiting = requests.values();
  await Promise.all(
    connections.map(async (connection) => {
      for (const request of waiting) await recorder.send(connection, request);
    }),
  );
  return recorder.result();
}

async function sendFor(
  connections: readonly Connection[],
  requests: readonly Buffer[],
  durationMs: number,
): Promise<LoadResult> {
  const recorder = new Recorder();
  const end = performance.now() + durationMs;
  let next = 0;
  await Promise.all(
    connections.map(async (connection) => {
      while (performance.now() < end) {
        next = (next + 1) % requests.length;
        await recorder.send(connection, requests[next] as Buffer);
      }
    }),
  );
  return recorder.result();
}

/** Requests without a free connection at their time are sent as soon as there is one. */
async function sendAtRate(
  connections: readonly Connection[],
  requests: readonly Buffer[],
  durationMs: number,
  perSecond: number,
): Promise<LoadResult> {
  const recorder = new Recorder();
  const free = [...connections];
  const running = new Set<Promise<void>>();
  const startedMs = performance.now();
  let sent = 0;
  for (let passedMs = 0; passedMs < durationMs; passedMs = performance.now() - startedMs) {
    for (const due = (passedMs / 1000) * perSecond; sent < due && free.length > 0; sent += 1) {
      const connection = free.pop() as Connection;
      const sending = recorder.send(connection, requests[sent % requests.length] as Buffer).finally(() => {
        free.push(connection);
        running.delete(sending);
      });
      running.add(sending);
    }
    await delay(TICK_MS);
  }
  await Promise.all(running);
  return recorder.result();
}

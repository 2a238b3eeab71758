import { once } from 'node:events';
import { Agent, type IncomingMessage, request } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import { serveTask } from '../support/task.ts';

/** Broadcasts with a content of so many bytes, each sent once over one of the connections. */
export interface LargeBodies {
  address: string;
  jwt: string;
  broadcasts: number;
  bytes: number;
  connections: number;
  /** Sends one that was rejected again after its Retry-After, until it is accepted. */
  retried: boolean;
}

/** How many requests got each status; `broken` got none. */
export type Statuses = Record<string, number>;

serveTask(async ({ address, jwt, broadcasts, bytes, connections, retried }: LargeBodies) => {
  const agent = new Agent({ keepAlive: true, maxSockets: connections });
  const body = Buffer.from(
    JSON.stringify({ title: 'Large', content: text(bytes), recipients: [{ external_id: 'large' }] }),
  );
  const statuses: Statuses = {};
  let left = broadcasts;
  const send = async (): Promise<void> => {
    const { status, retryAfterMs } = await post(`${address}/v2/broadcasts`, { agent, jwt, body });
    statuses[status] = (statuses[status] ?? 0) + 1;
    if (!retried || retryAfterMs === undefined) return;
    await delay(retryAfterMs * (0.5 + Math.random()));
    await send();
  };
  const connection = async () => {
    while (left > 0) {
      left -= 1;
      await send();
    }
  };
  await Promise.all(Array.from({ length: connections }, connection));
  agent.destroy();
  return statuses;
});

/** Text that deflates to about a third, as prose does. */
function text(bytes: number): string {
  const words = Array.from({ length: 5_000 }, () =>
    Math.random()
      .toString(36)
      .slice(2, 4 + Math.random() * 8),
  );
  let all = '';
  while (all.length < bytes) all += `${words[Math.floor(Math.random() * words.length)]} `;
  return all.slice(0, bytes);
}

async function post(
  url: string,
  { agent, jwt, body }: { agent: Agent; jwt: string; body: Buffer },
): Promise<{ status: string; retryAfterMs?: number }> {
  const sent = request(url, {
    method: 'POST',
    agent,
    headers: {
      authorization: `Bearer ${jwt}`,
      'content-type': 'application/json',
      'content-length': body.length,
    },
  });
  sent.end(body);
  try {
    const [response] = (await once(sent, 'response')) as [IncomingMessage];
    response.resume();
    await once(response, 'end');
    const status = String(response.statusCode);
    const seconds = Number(response.headers['retry-after'] ?? Number.NaN);
    return Number.isNaN(seconds) ? { status } : { status, retryAfterMs: seconds * 1_000 };
  } catch {
    return { status: 'broken' };
  }
}

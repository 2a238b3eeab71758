import { readFile } from 'node:fs/promises';
import { buffer } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import { ApiError, baseUrlOf, credentials, request, type Target } from './api.ts';
import { CommandError, UsageError } from './command.ts';
import { plain, print, printJson } from './output.ts';
import { parseUserName } from './user-name.ts';

export interface SendOptions {
  to: string[];
  title?: string;
  content?: string;
  actionUrl?: string;
  category?: string;
  topic?: string;
  data?: string;
  file?: string;
  wait?: boolean;
  timeout: number;
  url?: string;
  jwt?: string;
  json?: boolean;
}

interface Broadcast {
  id: string;
  status: {
    status: 'enqueued' | 'processing' | 'processed';
    summary: { total: number; failures: number };
    errors: { message: string }[] | null;
  };
}

const FIRST_POLL_MS = 50;
const LONGEST_POLL_MS = 1_000;

/** `belfry send`: one broadcast through the API, as any program would send it. */
export async function send(from: string | undefined, options: SendOptions): Promise<void> {
  const body = await bodyOf(from, options);
  const target = targetOf(options);
  const response = await request(target, '/broadcasts', {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body,
  });
  const sent = (await response.json()) as Broadcast;
  if (!options.wait) {
    if (options.json) printJson(sent);
    else print(sent.id);
    return;
  }
  if (!options.json) print(sent.id);
  const processed = await waitUntilProcessed(target, sent.id, options.timeout);
  if (options.json) printJson(processed);
  else report(processed);
  if (processed.status.summary.failures > 0) process.exitCode = 1;
}

function targetOf({ url, jwt }: SendOptions): Target {
  if (url !== undefined && jwt !== undefined) return { baseUrl: baseUrlOf(url), jwt };
  const file = credentials('--url and --jwt');
  return { baseUrl: url === undefined ? file.base_url : baseUrlOf(url), jwt: jwt ?? file.project_jwt };
}

async function bodyOf(from: string | undefined, options: SendOptions): Promise<string | Buffer> {
  const { to, title, content, actionUrl, category, topic, data, file } = options;
  const flags = [title, content, actionUrl, category, topic, data].filter((flag) => flag !== undefined);
  const source = file ?? from;
  if (source !== undefined) {
    if (flags.length + to.length > 0 || (file !== undefined && from !== undefined)) {
      throw new UsageError('give the broadcast either as JSON (- or --file) or by flags, not both');
    }
    if (file === undefined && from !== '-') {
      throw new UsageError(
        `${from} is no argument of send: give - to read JSON from standard input, or --file`,
      );
    }
    return source === '-' ? buffer(process.stdin) : contentOf(source);
  }
  if (title === undefined || to.length === 0) {
    throw new UsageError(
      'a broadcast needs --title and at least one --to; or give it as JSON with - or --file',
    );
  }
  return JSON.stringify({
    title,
    content,
    action_url: actionUrl,
    category,
    topic,
    custom_attributes: data === undefined ? undefined : parseData(data),
    recipients: to.map(parseUserName),
  });
}

async function contentOf(file: string): Promise<Buffer> {
  try {
    return await readFile(file);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    throw new CommandError(`${file} cannot be read (${code}): check the path`);
  }
}

function parseData(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new UsageError('--data is not JSON: give an object such as \'{"order": 42}\'');
  }
}

async function waitUntilProcessed(target: Target, id: string, timeoutMs: number): Promise<Broadcast> {
  const deadline = performance.now() + timeoutMs;
  for (let pauseMs = FIRST_POLL_MS; ; pauseMs = Math.min(pauseMs * 1.5, LONGEST_POLL_MS)) {
    const { broadcast, retryAfterMs } = await lookAt(target, id);
    if (broadcast?.status.status === 'processed') return broadcast;
    const waitMs = Math.max(retryAfterMs, pauseMs);
    if (performance.now() + waitMs > deadline) {
      const state = broadcast?.status.status ?? 'in an unknown state';
      throw new CommandError(
        `broadcast ${id} is still ${state} after ${timeoutMs / 1000} s: it goes on by itself; wait longer with --timeout 10m`,
      );
    }
    await sleep(waitMs);
  }
}

/** The broadcast as it is now. A server that is busy, or restarts its database, does not end the waiting. */
async function lookAt(target: Target, id: string): Promise<{ broadcast?: Broadcast; retryAfterMs: number }> {
  try {
    const response = await request(target, `/broadcasts/${id}`);
    return { broadcast: (await response.json()) as Broadcast, retryAfterMs: 0 };
  } catch (error) {
    if (!(error instanceof ApiError) || (error.status !== 429 && error.status !== 503)) throw error;
    return { retryAfterMs: error.retryAfterMs ?? 0 };
  }
}

function report({ status: { status, summary, errors } }: Broadcast): void {
  print(`${status}: ${summary.total} addressed, ${summary.failures} failed`);
  for (const { message } of errors ?? []) print(`  ${plain(message)}`);
}

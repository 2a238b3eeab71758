import { readFile } from 'node:fs/promises';
import { buffer } from 'node:stream/consumers';
import { projectTarget, request, type ServerOptions } from './api.ts';
import { type Broadcast, printStatus, waitUntilProcessed } from './broadcast.ts';
import { CommandError, UsageError, unreadable } from './command.ts';
import { print, printJson } from './output.ts';
import { parseUserName, type UserName } from './parse.ts';

export interface SendOptions extends ServerOptions {
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
  json?: boolean;
}

/** `belfry send`: sends one broadcast through the API. */
export async function send(from: string | undefined, options: SendOptions): Promise<void> {
  const body = await bodyOf(from, options);
  const target = projectTarget(options);
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
  else printStatus(processed);
  if (processed.status.summary.failures > 0) process.exitCode = 1;
}

async function bodyOf(from: string | undefined, options: SendOptions): Promise<string | Buffer> {
  const { to, title, content, actionUrl, category, topic, data, file } = options;
  const flags = [title, content, actionUrl, category, topic, data].filter((flag) => flag !== undefined);
  const source = file ?? from;
  if (source !== undefined) {
    if (flags.length + to.length > 0 || (file !== undefined && from !== undefined)) {
      throw new UsageError('describe the broadcast either by JSON (- or --file) or by flags, not both');
    }
    if (file === undefined && from !== '-') {
      throw new UsageError(
        `${from} is not an argument of send: use - to read JSON from standard input, or --file`,
      );
    }
    const body = await (source === '-' ? buffer(process.stdin) : readFile(source).catch(unreadable(source)));
    if (body.length === 0)
      throw new CommandError(
        `${source === '-' ? 'standard input' : source} is empty: it must have the broadcast as JSON`,
      );
    return body;
  }
  if (title === undefined || to.length === 0) {
    throw new UsageError('a broadcast needs --title and at least one --to; or use JSON, with - or --file');
  }
  return JSON.stringify({
    title,
    content,
    action_url: actionUrl,
    category,
    topic,
    custom_attributes: data === undefined ? undefined : parseData(data),
    recipients: recipientsOf(to),
  });
}

/** The recipients of --to. Throws a `UsageError` with every invalid one. */
function recipientsOf(to: readonly string[]): UserName[] {
  const problems: string[] = [];
  const recipients = to.flatMap((text) => {
    try {
      return [parseUserName(text)];
    } catch (error) {
      problems.push(`--to '${text}': ${(error as Error).message}`);
      return [];
    }
  });
  const [first, ...more] = problems;
  if (first !== undefined) throw new UsageError(first, ...more);
  return recipients;
}

function parseData(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new UsageError('--data is not JSON: use an object such as \'{"order": 42}\'');
  }
}

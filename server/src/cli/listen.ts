import { prepareEmail } from '../domain/line/rendering/email.ts';
import { signUserToken } from '../domain/setup/projects/user-token.ts';
import { systemClock } from '../lib/clock.ts';
import { ApiError, baseUrlOf, credentials, request, type Target } from './api.ts';
import { follow, note } from './follow.ts';
import { colored, plain, print } from './output.ts';
import type { UserName } from './parse.ts';

export interface ListenOptions {
  url?: string;
  jwt?: string;
  json?: boolean;
}

interface Frame {
  name: string;
  timestamp: string;
  data: { id: string; notification?: Notification };
}

interface Notification {
  title: string;
  content: string | null;
  action_url: string | null;
}

const TOKEN_MS = 3_600_000;
// Remembered, to name the notifications that are read later.
const MAX_TITLES = 1_000;
const MAX_LINES = 20;

/** `belfry listen`: prints the changes of a user's inbox until Ctrl-C. */
export function listen(user: UserName, options: ListenOptions): Promise<void> {
  const titles = new Map<string, string>();
  return follow({
    path: '/notifications/stream',
    target: targets(user, options),
    onBegin: (target) => greet(target, user),
    onEvent: ({ name, data }, target) => show(name, data, { target, titles, options }),
  });
}

/** Signs a new token for each connection, because a terminal may stay open for days. */
function targets(user: UserName, { url, jwt }: ListenOptions): () => Target | Promise<Target> {
  if (url !== undefined && jwt !== undefined) return () => ({ baseUrl: baseUrlOf(url), jwt });
  const file = credentials();
  const baseUrl = url === undefined ? file.base_url : baseUrlOf(url);
  const who = 'email' in user ? { email: user.email } : { externalId: user.external_id };
  const keys = { apiKey: file.api_key, apiSecret: file.api_secret };
  const sign = () =>
    signUserToken(
      { clock: systemClock },
      { ...keys, ...who, expiresAt: new Date(systemClock.now() + TOKEN_MS) },
    );
  return async () => ({ baseUrl, jwt: jwt ?? (await sign()) });
}

async function greet(target: Target, user: UserName): Promise<void> {
  const who = 'email' in user ? user.email : user.external_id;
  try {
    const response = await request(target, '/notifications/unread/count');
    const { count } = (await response.json()) as { count: number };
    note(`${who} has ${count} unread ${count === 1 ? 'notification' : 'notifications'}`);
  } catch (error) {
    if (!(error instanceof ApiError) || error.missingRole === undefined) throw error;
    note('this node does not have the role api, so long notifications appear without their texts');
  }
  note(`listening… (Ctrl-C ends)`);
}

interface Screen {
  target: Target;
  titles: Map<string, string>;
  options: ListenOptions;
}

async function show(name: string, data: string, { target, titles, options }: Screen): Promise<void> {
  if (options.json) return print(data);
  if (name === 'resync') return note('some changes are no longer in the stream: read the inbox');
  if (!name.startsWith('notifications/')) return;
  const frame = JSON.parse(data) as Frame;
  const { id } = frame.data;
  const time = new Date(frame.timestamp).toLocaleTimeString('en-GB');
  if (name === 'notifications/new') {
    const found = frame.data.notification ?? (await fetchNotification(target, id));
    if (typeof found === 'string') return print(`${colored('dim', time)}  ${id} (${found})`);
    remember(titles, id, found.title);
    return print(arrival(time, found));
  }
  const what = CHANGES[name] ?? name;
  const all = name.endsWith('/all');
  print(
    all
      ? `${colored('dim', time)}  ${what}`
      : `${colored('dim', time)}  ${what}: ${plain(frame.data.notification?.title ?? titles.get(id) ?? id)}`,
  );
}

const CHANGES: Record<string, string> = {
  'notifications/read': 'read',
  'notifications/unread': 'unread',
  'notifications/seen': 'seen',
  'notifications/archived': 'archived',
  'notifications/unarchived': 'unarchived',
  'notifications/delete': 'deleted',
  'notifications/snoozed': 'snoozed',
  'notifications/read/all': 'all read',
  'notifications/seen/all': 'all seen',
  'notifications/archive/all': 'all archived',
};

function arrival(time: string, { title, content, action_url: link }: Notification): string {
  // The text part of an e-mail also suits a terminal.
  const { text } = prepareEmail({ title, content, actionUrl: null });
  const lines = text.split('\n');
  const shown = lines.length > MAX_LINES ? [...lines.slice(0, MAX_LINES), '…'] : lines;
  const parts = [title, ...shown, link ?? ''].map(plain).filter((line) => line.trim() !== '');
  const [first = '', ...rest] = parts;
  const indent = ' '.repeat(time.length);
  return [
    `${colored('dim', time)}  ${colored('bold', first)}`,
    ...rest.map((line) => `${indent}  ${line}`),
  ].join('\n');
}

/** Reads a notification that is too long for a frame. Returns why it cannot, if that is no error. */
async function fetchNotification(target: Target, id: string): Promise<Notification | string> {
  try {
    return (await (await request(target, `/notifications/${id}`)).json()) as Notification;
  } catch (error) {
    if (!(error instanceof ApiError) || error.status !== 404) throw error;
    return error.missingRole === undefined ? 'deleted' : 'too long for the stream';
  }
}

function remember(titles: Map<string, string>, id: string, title: string): void {
  const [oldest] = titles.keys();
  if (titles.size >= MAX_TITLES && oldest !== undefined) titles.delete(oldest);
  titles.set(id, title);
}

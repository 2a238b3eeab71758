import { setTimeout as sleep } from 'node:timers/promises';
import { prepareEmail } from '../domain/deliveries/render/email.ts';
import { signUserToken } from '../domain/projects/user-token.ts';
import { systemClock } from '../lib/clock.ts';
import { ApiError, baseUrlOf, credentials, request, type Target } from './api.ts';
import { CommandError } from './command.ts';
import { readEvents, type StreamEvent } from './event-stream.ts';
import { plain, print } from './output.ts';
import type { UserName } from './user-name.ts';

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

// The server says something every 15 s: a connection that is silent for so long is dead, although nobody closed it.
const SILENCE_MS = 45_000;
const TOKEN_MS = 3_600_000;
const FIRST_RETRY_MS = 500;
const LONGEST_RETRY_MS = 10_000;
// Of so many notifications the titles are remembered, to say which one was read.
const MAX_TITLES = 1_000;
const MAX_LINES = 20;

/** `belfry listen`: prints what arrives in a user's inbox until Ctrl-C. A lost connection is made again, and what came meanwhile is shown. */
export async function listen(user: UserName, options: ListenOptions): Promise<void> {
  const stop = untilStopped();
  const targetNow = targets(user, options);
  const titles = new Map<string, string>();
  let lastEventId = '';
  let greeted = false;
  for (let failures = 0; !stop.aborted; failures += 1) {
    try {
      const target = targetNow();
      const events = await connect(target, lastEventId, stop);
      failures = 0;
      if (greeted) note('connected again');
      else await greet(target, user);
      greeted = true;
      for await (const event of events) {
        if (event.data !== undefined) await show(event.name, event.data, { target, titles, options });
        lastEventId = event.id ?? lastEventId;
      }
    } catch (error) {
      if (stop.aborted) return;
      if (!greeted || !mayPass(error)) throw error;
    }
    if (stop.aborted) return;
    if (failures === 0) note('the connection is lost; connecting again…');
    const pauseMs = Math.min(FIRST_RETRY_MS * 2 ** failures, LONGEST_RETRY_MS);
    await sleep(pauseMs, undefined, { signal: stop }).catch(() => {}); // Ctrl-C ends the pause, too
  }
}

/** Aborts on Ctrl-C, SIGTERM, and when the launcher is gone. The launcher and the terminal may both pass on a signal: any number is one. */
function untilStopped(): AbortSignal {
  const stopping = new AbortController();
  const stop = () => stopping.abort();
  process.on('SIGINT', stop);
  process.on('SIGTERM', stop);
  process.on('SIGHUP', stop);
  process.on('disconnect', stop);
  process.channel?.unref(); // which the listener for its end had made a reason to stay
  return stopping.signal;
}

/** How to connect now: with a token that is fresh, for a terminal may stay open for days. */
function targets(user: UserName, { url, jwt }: ListenOptions): () => Target {
  if (url !== undefined && jwt !== undefined) return () => ({ baseUrl: baseUrlOf(url), jwt });
  const file = credentials('--url and --jwt');
  const baseUrl = url === undefined ? file.base_url : baseUrlOf(url);
  const who = 'email' in user ? { email: user.email } : { externalId: user.external_id };
  const keys = { apiKey: file.api_key, apiSecret: file.api_secret };
  const sign = () =>
    signUserToken(
      { clock: systemClock },
      { ...keys, ...who, expiresAt: new Date(systemClock.now() + TOKEN_MS) },
    );
  return () => ({ baseUrl, jwt: jwt ?? sign() });
}

/** The events from now on; resolves when the server has begun to tell them. The iteration throws a `CommandError` when the connection breaks. */
async function connect(
  target: Target,
  lastEventId: string,
  stop: AbortSignal,
): Promise<AsyncGenerator<StreamEvent>> {
  const silence = new AbortController();
  const timer = setTimeout(() => silence.abort(), SILENCE_MS);
  const signal = AbortSignal.any([stop, silence.signal]);
  const headers = {
    accept: 'text/event-stream',
    ...(lastEventId === '' ? {} : { 'last-event-id': lastEventId }),
  };
  try {
    const { body } = await request(target, '/notifications/stream', { headers, signal });
    return untilBroken(body, timer);
  } catch (error) {
    clearTimeout(timer);
    if (silence.signal.aborted) throw new CommandError(`${target.baseUrl} does not answer`);
    throw error;
  }
}

async function* untilBroken(body: Response['body'], timer: NodeJS.Timeout): AsyncGenerator<StreamEvent> {
  try {
    if (body !== null) yield* readEvents(body, () => timer.refresh());
  } catch (error) {
    throw new CommandError(`the connection broke: ${error instanceof Error ? error.message : error}`);
  } finally {
    clearTimeout(timer);
  }
}

function mayPass(error: unknown): boolean {
  if (error instanceof ApiError) return error.status === 429 || error.status >= 500;
  return error instanceof CommandError;
}

async function greet(target: Target, user: UserName): Promise<void> {
  const response = await request(target, '/notifications/unread/count');
  const { count } = (await response.json()) as { count: number };
  const who = 'email' in user ? user.email : user.external_id;
  note(`${who} has ${count} unread ${count === 1 ? 'notification' : 'notifications'}`);
  note(`listening… (Ctrl-C ends)`);
}

interface Screen {
  target: Target;
  titles: Map<string, string>;
  options: ListenOptions;
}

async function show(name: string, data: string, { target, titles, options }: Screen): Promise<void> {
  if (options.json) return print(data);
  if (name === 'resync') return note('more came meanwhile than can be shown here: look into the inbox');
  const frame = JSON.parse(data) as Frame;
  const { id } = frame.data;
  const time = new Date(frame.timestamp).toLocaleTimeString('en-GB');
  if (name === 'notifications/new') {
    const notification = frame.data.notification ?? (await fetchNotification(target, id));
    if (notification !== undefined) remember(titles, id, notification.title);
    return print(arrival(time, id, notification));
  }
  const what = CHANGES[name] ?? name;
  const all = name.endsWith('/all');
  print(
    all
      ? `${time}  ${what}`
      : `${time}  ${what}: ${plain(frame.data.notification?.title ?? titles.get(id) ?? id)}`,
  );
}

const CHANGES: Record<string, string> = {
  'notifications/read': 'read',
  'notifications/unread': 'unread',
  'notifications/seen': 'seen',
  'notifications/archived': 'archived',
  'notifications/unarchived': 'unarchived',
  'notifications/delete': 'deleted',
  'notifications/read/all': 'all read',
  'notifications/seen/all': 'all seen',
  'notifications/archive/all': 'all archived',
};

function arrival(time: string, id: string, notification: Notification | undefined): string {
  if (notification === undefined) return `${time}  ${id} (gone already)`;
  const { title, content, action_url: link } = notification;
  // The text part of its e-mail is what a terminal wants, too.
  const { text } = prepareEmail({ title, content, actionUrl: null });
  const lines = text.split('\n');
  const shown = lines.length > MAX_LINES ? [...lines.slice(0, MAX_LINES), '…'] : lines;
  const parts = [title, ...shown, link ?? ''].map(plain).filter((line) => line.trim() !== '');
  return parts.map((line, index) => `${index === 0 ? time : ' '.repeat(time.length)}  ${line}`).join('\n');
}

/** A notification whose content is too long for a frame. It may have been deleted since. */
async function fetchNotification(target: Target, id: string): Promise<Notification | undefined> {
  try {
    return (await (await request(target, `/notifications/${id}`)).json()) as Notification;
  } catch (error) {
    if (error instanceof ApiError && error.status === 404) return undefined;
    throw error;
  }
}

function remember(titles: Map<string, string>, id: string, title: string): void {
  const [oldest] = titles.keys();
  if (titles.size >= MAX_TITLES && oldest !== undefined) titles.delete(oldest);
  titles.set(id, title);
}

/** What is said about the connection is no part of the output. */
function note(text: string): void {
  console.error(text);
}

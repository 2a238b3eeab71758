import { setTimeout as sleep } from 'node:timers/promises';
import { ApiError, request, type Target } from './api.ts';
import { CommandError } from './command.ts';
import { readEvents, type StreamEvent } from './event-stream.ts';
import { untilStopped } from './until-stopped.ts';

/** A stream of the API, and how its events are handled. */
export interface Followed {
  path: string;
  /** Called for each connection, because its token may have expired. */
  target(): Target | Promise<Target>;
  /** The stream starts after this event; without one, with the next event. */
  lastEventId?: string;
  /** Called when the first connection is open. */
  onBegin(target: Target): Promise<void>;
  onEvent(event: StreamEvent & { data: string }, target: Target): Promise<void>;
}

// The server sends a heartbeat every 15 s: a connection that is silent for so long is dead.
const SILENCE_MS = 45_000;
const FIRST_RETRY_MS = 500;
const LONGEST_RETRY_MS = 10_000;

/** Follows a stream until Ctrl-C. Reconnects after a loss, and then receives the events since. */
export async function follow(followed: Followed): Promise<void> {
  const stop = untilStopped();
  let { lastEventId = '' } = followed;
  let begun = false;
  for (let failures = 0; !stop.aborted; failures += 1) {
    try {
      const target = await followed.target();
      const events = await connect(target, followed.path, lastEventId, stop);
      failures = 0;
      if (begun) note('reconnected');
      else await followed.onBegin(target);
      begun = true;
      for await (const event of events) {
        const { data } = event;
        if (data !== undefined) await followed.onEvent({ ...event, data }, target);
        lastEventId = event.id ?? lastEventId;
      }
    } catch (error) {
      if (stop.aborted) return;
      if (!begun || !isTemporary(error)) throw error;
    }
    if (stop.aborted) return;
    if (failures === 0) note('the connection was lost; reconnecting…');
    const pauseMs = Math.min(FIRST_RETRY_MS * 2 ** failures, LONGEST_RETRY_MS);
    await sleep(pauseMs, undefined, { signal: stop }).catch(() => {}); // Ctrl-C ends the pause
  }
}

/** The events of a new connection. The iteration throws a `CommandError` if the connection breaks. */
async function connect(
  target: Target,
  path: string,
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
    const { body } = await request(target, path, { headers, signal });
    return untilBroken(body, timer);
  } catch (error) {
    clearTimeout(timer);
    if (silence.signal.aborted) throw new CommandError(`${target.baseUrl} does not respond`);
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

function isTemporary(error: unknown): boolean {
  // A 2xx is the page of a proxy, perhaps while the server restarts.
  if (error instanceof ApiError) return error.status === 429 || error.status >= 500 || error.status < 300;
  return error instanceof CommandError;
}

/** Prints a note about the connection on standard error. */
export function note(text: string): void {
  console.error(text);
}

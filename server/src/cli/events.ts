import { isId } from '../lib/ids.ts';
import { projectTarget, request, type ServerOptions } from './api.ts';
import { UsageError } from './command.ts';
import { follow, note } from './follow.ts';
import { colored, type Format, plain, print, printJsonLine } from './output.ts';

export interface EventsOptions extends ServerOptions {
  type: string[];
  follow?: boolean;
  after?: string;
  limit: number;
  json?: boolean;
}

interface Event {
  id: string;
  type: string;
  timestamp: string;
  level?: 'info' | 'warn' | 'error';
  log?: string;
  context?: Record<string, unknown>;
}

/** `belfry events`: the last events of the project, oldest first; with --follow new ones, until Ctrl-C. */
export async function events(options: EventsOptions): Promise<void> {
  const { type, after, json } = options;
  if (after !== undefined && !options.follow)
    throw new UsageError('--after needs --follow, which resumes after that event');
  if (after !== undefined && !isId(after)) throw new UsageError(`--after ${after} is not the id of an event`);
  const types = type.length === 0 ? '' : `type=${encodeURIComponent(type.join(','))}`;
  if (!options.follow) return list(options, types);
  const query = types === '' ? '' : `?${types}`;
  await follow({
    path: `/events/stream${query}`,
    target: () => projectTarget(options),
    ...(after === undefined ? {} : { lastEventId: after }),
    onBegin: async () => note('following… (Ctrl-C ends)'),
    async onEvent({ name, data }) {
      if (name === 'resync') return note('some events are no longer in the stream: use belfry events');
      show(JSON.parse(data) as Event, json);
    },
  });
}

async function list(options: EventsOptions, types: string): Promise<void> {
  const query = [`limit=${options.limit}`, types].filter((part) => part !== '').join('&');
  const response = await request(projectTarget(options), `/events?${query}`);
  const { data } = (await response.json()) as { data: Event[] };
  if (data.length === 0) note('There are no such events.');
  for (const event of data.toReversed()) show(event, options.json);
}

const FORMATS: Record<NonNullable<Event['level']>, Format | undefined> = {
  info: undefined,
  warn: 'yellow',
  error: 'red',
};
// Wide enough for most types, so that the columns align.
const TYPE_WIDTH = 24;

function show(event: Event, json: boolean | undefined): void {
  if (json) printJsonLine(event);
  else print(lineOf(event));
}

function lineOf(event: Event): string {
  const { timestamp, type, level = 'info', log, context = {} } = event;
  const format = FORMATS[level];
  const name = plain(type).padEnd(TYPE_WIDTH);
  const about = Object.entries(context).map(
    ([key, value]) => `${key}=${typeof value === 'string' ? value : JSON.stringify(value)}`,
  );
  const text = [...(log === undefined ? [] : [log]), ...about].join('  ');
  const shownName = format === undefined ? name : colored(format, name);
  return `${colored('dim', timestamp)}  ${shownName}  ${plain(text)}`.trimEnd();
}

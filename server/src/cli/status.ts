import { isId } from '../lib/ids.ts';
import { isNotFound, projectTarget, request, type ServerOptions, type Target } from './api.ts';
import { type Broadcast, printStatus, waitUntilProcessed } from './broadcast.ts';
import { CommandError, UsageError } from './command.ts';
import { type Cell, plain, print, printJson, printMembers, printTable } from './output.ts';
import { progress } from './progress.ts';

export interface StatusOptions extends ServerOptions {
  follow?: boolean;
  timeout: number;
  json?: boolean;
}

const PAGE = 100;
// Within the default rate limit of a minute.
const MAX_PAGES = 100;

/**
 * `belfry status`: the delivery status of a broadcast, in total and by channel. Exit code 1 after failures.
 */
export async function status(id: string, options: StatusOptions): Promise<void> {
  if (!isId(id)) throw new UsageError(`${id} is not the id of a broadcast: belfry send prints it`);
  const target = projectTarget(options);
  const broadcast = await found(target, id, options).catch((error: unknown) => {
    if (!isNotFound(error)) throw error;
    throw new CommandError(`there is no broadcast ${id} in the project: belfry send prints the id`);
  });
  const { channels, isComplete, counted } = await countDeliveries(target, id);
  if (broadcast.status.summary.failures > 0) process.exitCode = 1;
  if (options.json) return printJson({ ...broadcast, channels, channels_complete: isComplete });
  printMembers({ broadcast: broadcast.id, title: plain(broadcast.title), created: broadcast.created_at });
  print('');
  printStatus(broadcast);
  if (counted === 0) return;
  print('');
  printTable(
    Object.entries(channels).map(([channel, states]) => ({
      channel,
      ...Object.fromEntries(STATES.map((state) => [state, cellOf(state, states[state] ?? 0)])),
    })),
    '',
  );
  if (!isComplete) print(`\nThe table has the first ${counted} deliveries.`);
}

async function found(target: Target, id: string, { follow, timeout }: StatusOptions): Promise<Broadcast> {
  if (follow) return followed(target, id, timeout);
  return (await (await request(target, `/broadcasts/${id}`)).json()) as Broadcast;
}

async function followed(target: Target, id: string, timeoutMs: number): Promise<Broadcast> {
  const shown = progress();
  try {
    return await waitUntilProcessed(target, id, timeoutMs, ({ status: { status, summary } }) =>
      shown.show(`${status}: ${summary.total} addressed, ${summary.failures} failed`),
    );
  } finally {
    shown.end();
  }
}

const STATES = ['sent', 'scheduled', 'retrying', 'failed', 'skipped'] as const;
type State = (typeof STATES)[number];
type Channels = Record<string, Partial<Record<State, number>>>;

interface DeliveryPage {
  data: { channel: string; state: State }[];
  links: { next?: string | null };
}

async function countDeliveries(
  target: Target,
  id: string,
): Promise<{ channels: Channels; isComplete: boolean; counted: number }> {
  const channels: Channels = {};
  let counted = 0;
  let query = '';
  for (let page = 0; page < MAX_PAGES; page += 1) {
    const response = await request(target, `/broadcasts/${id}/deliveries?limit=${PAGE}${query}`);
    const { data, links } = (await response.json()) as DeliveryPage;
    for (const { channel, state } of data) {
      channels[channel] ??= {};
      channels[channel][state] = (channels[channel][state] ?? 0) + 1;
    }
    counted += data.length;
    const next = links.next ? new URL(links.next, target.baseUrl).searchParams.get('starting_after') : null;
    if (next === null) return { channels, isComplete: true, counted };
    query = `&starting_after=${encodeURIComponent(next)}`;
  }
  return { channels, isComplete: false, counted };
}

function cellOf(state: State, count: number): string | Cell {
  if (count === 0) return '-';
  const text = `${count}`;
  if (state === 'sent') return { text, format: 'green' };
  if (state === 'failed') return { text, format: 'red' };
  return state === 'skipped' ? { text, format: 'dim' } : { text, format: 'yellow' };
}

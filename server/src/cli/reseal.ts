import { type ResealedColumn, reseal } from '../domain/after/sealing/reseal.ts';
import type { Opened } from '../open.ts';
import { nodesWithoutKey } from '../queue/lease.ts';
import { CommandError } from './command.ts';
import { type Cell, print, printJson, printTable } from './output.ts';
import { progress } from './progress.ts';
import { withCells } from './with-cells.ts';

/**
 * `belfry reseal`: seals all secrets with the first key of SECRET_KEY. Exit code 1 if another key is still in
 * use afterwards, also one that SECRET_KEY lacks, or if a running server does not have the first key: then
 * nothing is sealed.
 */
export async function resealCommand({ json }: { json?: boolean }): Promise<void> {
  const { columns, keyIds } = await withCells(async ({ main, all }) => {
    const { contexts: cells, failures } = await all();
    if (failures[0] !== undefined) throw failures[0];
    for (const context of cells) await checkServers(context);
    const shown = progress();
    try {
      const ofCells: ResealedColumn[][] = [];
      for (const context of cells)
        ofCells.push(await reseal(context, ({ name, seen }) => shown.show(`${name}: ${seen}`)));
      return { columns: ofCells.reduce(sumOfColumns), keyIds: main.sealer.keyIds };
    } finally {
      shown.end();
    }
  });
  const keys = keysIn(columns, keyIds);
  if (keys.some(({ state, secrets }) => state !== 'current' && secrets > 0)) process.exitCode = 1;
  if (json) return printJson({ secrets: columns.map(toRecord), keys });
  report(columns, keys);
}

/** The sums of two cells, whose columns are the same. */
function sumOfColumns(one: ResealedColumn[], other: ResealedColumn[]): ResealedColumn[] {
  return one.map((column, at) => {
    const { total = 0, resealed = 0, unopenable = NONE, byKey = NONE } = other[at] ?? {};
    return {
      name: column.name,
      total: column.total + total,
      resealed: column.resealed + resealed,
      unopenable: sumOfCounts(column.unopenable, unopenable),
      byKey: sumOfCounts(column.byKey, byKey),
    };
  });
}

type Counts = ReadonlyMap<string, number>;
const NONE: Counts = new Map();

function sumOfCounts(one: Counts, other: Counts): Counts {
  const sums = new Map(one);
  for (const [id, count] of other) sums.set(id, (sums.get(id) ?? 0) + count);
  return sums;
}

/** Throws if a running server does not have the first key: its requests and deliveries would fail. */
export async function checkServers({ db, sealer }: Opened): Promise<void> {
  const [keyId] = sealer.keyIds;
  const nodes = await nodesWithoutKey(db, keyId);
  if (nodes.length > 0)
    throw new CommandError(
      `SECRET_KEY of running servers does not have the key ${keyId}: ` +
        `add it on ${nodes.join(', ')}, restart them, then repeat the command`,
    );
}

interface KeyUse {
  id: string;
  /** `missing`: in use, but not in SECRET_KEY. */
  state: 'current' | 'former' | 'missing';
  /** The number of secrets that it seals. */
  secrets: number;
}

function keysIn(columns: readonly ResealedColumn[], [current, ...former]: readonly string[]): KeyUse[] {
  const counts = new Map<string, number>();
  for (const { byKey } of columns)
    for (const [id, count] of byKey) counts.set(id, (counts.get(id) ?? 0) + count);
  const stateOf = (id: string) => (id === current ? 'current' : former.includes(id) ? 'former' : 'missing');
  const ids = new Set([...(current === undefined ? [] : [current]), ...former, ...counts.keys()]);
  return [...ids].map((id) => ({ id, state: stateOf(id), secrets: counts.get(id) ?? 0 }));
}

function toRecord({ name, total, resealed, unopenable }: ResealedColumn) {
  return { name, total, resealed, cannot_be_opened: sum(unopenable) };
}

function report(columns: readonly ResealedColumn[], keys: readonly KeyUse[]): void {
  printTable(
    columns.map(({ name, total, resealed, unopenable }) => ({
      secrets: name,
      total: `${total}`,
      resealed: `${resealed}`,
      'cannot be decrypted':
        sum(unopenable) === 0 ? '-' : { text: `${sum(unopenable)}`, format: 'red' as const },
    })),
    '',
  );
  print('');
  printTable(
    keys.map(({ id, state, secrets }) => ({
      key: id,
      state,
      secrets: `${secrets}`,
      '': adviceOn(state, secrets),
    })),
    '',
  );
  print('\nOlder backups still need the key of their time.');
}

function adviceOn(state: KeyUse['state'], secrets: number): string | Cell {
  if (state === 'current') return '';
  if (state === 'missing')
    return {
      text: 'add it to SECRET_KEY and repeat the command, or replace what it encrypts',
      format: 'red',
    };
  if (secrets === 0) return { text: 'can be removed from SECRET_KEY', format: 'green' };
  return {
    text: 'still in use: start every server with the new key first, then repeat the command',
    format: 'yellow',
  };
}

function sum(counts: ReadonlyMap<string, number>): number {
  return [...counts.values()].reduce((total, count) => total + count, 0);
}

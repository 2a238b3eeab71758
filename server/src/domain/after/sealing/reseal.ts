import { type Queryable, type Statement, sql } from '../../../db/client.ts';
import { CannotOpen, type Sealer } from '../../../lib/seal.ts';
import { storedResponsePurpose } from '../../ground/requests/idempotency.ts';
import { addressKeyPurpose } from '../../ground/suppressions/address-keys.ts';
import { installationPurpose } from '../../people/installations/record.ts';
import { tokenPurpose } from '../../people/tokens/sealed.ts';
import { cellPurpose } from '../../setup/cells/cells.ts';
import { sealedFor } from '../../setup/integrations/cache.ts';
import { type KeyKind, sealingPurpose } from '../../setup/projects/keys.ts';
import { replaceSealingKey } from '../../setup/projects/sealing-key.ts';
import { secretPurpose } from '../webhooks/secrets.ts';

/** A column that holds sealed values. */
interface SealedColumn {
  /** What the values are, for the report. */
  name: string;
  table: string;
  column: string;
  /** The primary key, with the types of its columns. */
  key: Record<string, 'uuid' | 'text'>;
  /** The purpose that a value is sealed for, from the row's key and `also`. */
  purpose(row: Row): string;
  /** A column that `purpose` needs besides the key. */
  also?: string;
  /** The values are base64. Unsealed values among them are JSON, which never starts with an A. */
  base64?: true;
}

type Row = Readonly<Record<string, string | Buffer | null>>;

const of = (row: Row, name: string) => String(row[name]);

/** Every sealed column of the database. */
const COLUMNS: readonly SealedColumn[] = [
  {
    name: 'API secrets',
    table: 'projects',
    column: 'sealed_api_secret',
    key: { id: 'uuid' },
    purpose: (row) => sealingPurpose(of(row, 'id'), 'api_secret'),
  },
  {
    name: 'signing keys',
    table: 'projects',
    column: 'sealed_signing_key',
    key: { id: 'uuid' },
    purpose: (row) => sealingPurpose(of(row, 'id'), 'signing_key'),
  },
  {
    name: 'former keys of projects',
    table: 'former_project_keys',
    column: 'sealed_key',
    key: { project_id: 'uuid', id: 'text' },
    also: 'kind',
    purpose: (row) => sealingPurpose(of(row, 'project_id'), of(row, 'kind') as KeyKind),
  },
  {
    name: 'integrations',
    table: 'integrations',
    column: 'sealed_config',
    key: { id: 'uuid', project_id: 'uuid' },
    purpose: (row) => sealedFor(of(row, 'project_id'), of(row, 'id')),
  },
  {
    name: 'installations',
    table: 'installations',
    column: 'sealed_record',
    key: { project_id: 'uuid', provider: 'text', id: 'text', owner_id: 'uuid' },
    purpose: (row) =>
      installationPurpose({
        projectId: of(row, 'project_id'),
        provider: of(row, 'provider'),
        id: of(row, 'id'),
        ownerId: of(row, 'owner_id'),
      }),
  },
  ...(['sealed_secret', 'sealed_former_secret'] as const).map((column) => ({
    name: column === 'sealed_secret' ? 'secrets of webhooks' : 'former secrets of webhooks',
    table: 'webhooks',
    column,
    key: { id: 'uuid' } as const,
    purpose: (row: Row) => secretPurpose(of(row, 'id')),
  })),
  {
    name: 'keys of suppressions',
    table: 'suppression_keys',
    column: 'sealed_key',
    key: { project_id: 'uuid' },
    purpose: (row) => addressKeyPurpose(of(row, 'project_id')),
  },
  {
    name: 'tokens',
    table: 'tokens',
    column: 'sealed_data',
    key: { user_id: 'uuid', id: 'uuid' },
    purpose: (row) => tokenPurpose(of(row, 'user_id'), of(row, 'id')),
  },
  ...(['sealed_url', 'sealed_direct_url'] as const).map((column) => ({
    name: column === 'sealed_url' ? 'URLs of cells' : 'direct URLs of cells',
    table: 'cells',
    column,
    key: { name: 'text' } as const,
    purpose: (row: Row) => cellPurpose(of(row, 'name')),
  })),
  {
    name: 'kept responses',
    table: 'idempotency_keys',
    column: 'body',
    key: { project_id: 'uuid', scope: 'text', key: 'text' },
    purpose: (row) => storedResponsePurpose(of(row, 'project_id'), of(row, 'scope'), of(row, 'key')),
    base64: true,
  },
];

/** The result for one sealed column. */
export interface ResealedColumn {
  name: string;
  total: number;
  /** Values that were sealed with the current key now. */
  resealed: number;
  /** Values that cannot be opened, by the id of their key. */
  unopenable: ReadonlyMap<string, number>;
  /** How many values each key seals afterwards, by its id. */
  byKey: ReadonlyMap<string, number>;
}

/**
 * Seals every secret of the database with the sealer's first key, one page per statement, while servers run.
 * A value that is written meanwhile stays as it is; `byKey`, which is counted afterwards, includes its key.
 * Can be interrupted and repeated, and two can run at the same time.
 */
export async function reseal(
  deps: { db: Queryable; sealer: Sealer },
  onPage: (progress: { name: string; seen: number }) => void = () => {},
): Promise<ResealedColumn[]> {
  const results: ResealedColumn[] = [];
  for (const column of COLUMNS) {
    let resealed = 0;
    const unopenable = new Map<string, number>();
    let seen = 0;
    for await (const rows of pagesOf(deps, column)) {
      seen += rows.length;
      resealed += await resealPage(deps, column, rows, unopenable);
      onPage({ name: column.name, seen });
    }
    const byKey = new Map<string, number>();
    for await (const rows of pagesOf(deps, column)) {
      for (const { key_id } of rows) byKey.set(key_id, (byKey.get(key_id) ?? 0) + 1);
    }
    const total = [...byKey.values()].reduce((sum, count) => sum + count, 0);
    results.push({ name: column.name, total, resealed, unopenable, byKey });
  }
  // It decides whether a server with the new key alone may open a database without projects.
  const areOpen = results.every(({ unopenable }) => unopenable.size === 0);
  await replaceSealingKey(deps, { isProven: areOpen && results.some(({ total }) => total > 0) });
  return results;
}

/** Values that were sealed with a key that the sealer lacks. */
interface UnreadableValues {
  name: string;
  key_id: string;
  count: number;
}

/**
 * Counts the values that the sealer has no key for. Reads whole tables. Without those of projects,
 * integrations, webhooks and cells, which are named one by one elsewhere.
 */
export async function countUnreadable({
  db,
  sealer,
}: {
  db: Queryable;
  sealer: Pick<Sealer, 'keyIds'>;
}): Promise<UnreadableValues[]> {
  const found: UnreadableValues[] = [];
  for (const column of COLUMNS.filter(({ table }) => !NAMED_ELSEWHERE.has(table))) {
    const rows = await db.query<Omit<UnreadableValues, 'name'>>(statementsOf(column).unreadable, [
      sealer.keyIds,
    ]);
    found.push(...rows.map((row) => ({ name: column.name, ...row })));
  }
  return found;
}

const NAMED_ELSEWHERE = new Set(['integrations', 'webhooks', 'cells', 'projects']);

const PAGE = 500;
// Another transaction may lock two rows of a page in the other order.
const MAX_DEADLOCKS = 5;

/** A row's key and the input of `purpose`, as texts. `sealed` is null if it has the current key. */
type PageRow = Row & { key_id: string; sealed: Buffer | null };

async function* pagesOf(
  { db, sealer }: { db: Queryable; sealer: Sealer },
  column: SealedColumn,
): AsyncGenerator<PageRow[]> {
  const { first, next } = statementsOf(column);
  const keys = Object.keys(column.key);
  const current = Buffer.from(sealer.keyIds[0], 'hex');
  let rows = await db.query<PageRow>(first, [current]);
  for (;;) {
    if (rows.length > 0) yield rows;
    const last = rows.at(-1);
    if (last === undefined || rows.length < PAGE) return;
    rows = await db.query<PageRow>(next, [current, ...keys.map((name) => last[name])]);
  }
}

/** Returns how many rows were sealed with the current key. */
async function resealPage(
  { db, sealer }: { db: Queryable; sealer: Sealer },
  column: SealedColumn,
  rows: readonly PageRow[],
  unopenable: Map<string, number>,
): Promise<number> {
  const changes: { row: PageRow; was: Buffer; sealed: Buffer }[] = [];
  for (const row of rows) {
    if (row.sealed === null) continue;
    try {
      const purpose = column.purpose(row);
      changes.push({ row, was: row.sealed, sealed: sealer.seal(sealer.open(row.sealed, purpose), purpose) });
    } catch (error) {
      if (!(error instanceof CannotOpen)) throw error;
      unopenable.set(row.key_id, (unopenable.get(row.key_id) ?? 0) + 1);
    }
  }
  if (changes.length === 0) return 0;
  const keys = Object.keys(column.key).map((name) => changes.map(({ row }) => row[name]));
  const values = [...keys, changes.map(({ was }) => was), changes.map(({ sealed }) => sealed)];
  for (let deadlocks = 0; ; deadlocks += 1) {
    try {
      return (await db.query(statementsOf(column).update, values)).length;
    } catch (error) {
      if ((error as { code?: unknown }).code !== '40P01' || deadlocks === MAX_DEADLOCKS) throw error;
    }
  }
}

interface ColumnStatements {
  first: Statement;
  next: Statement;
  update: Statement;
  unreadable: Statement;
}

const made = new Map<SealedColumn, ColumnStatements>();

/** The statements of a column. All but `unreadable` go by the primary key of its table. */
function statementsOf(sealed: SealedColumn): ColumnStatements {
  const known = made.get(sealed);
  if (known !== undefined) return known;
  const { table, column, key, also, base64 } = sealed;
  const names = Object.keys(key);
  const types = Object.values(key);
  const bytes = base64 ? `decode(${column}, 'base64')` : column;
  // Eight characters of base64 have the id of the key. A whole response may be long.
  const head = base64 ? `decode(substring(${column} from 1 for 8), 'base64')` : column;
  const isSealed = base64 ? `${column} like 'A%'` : `${column} is not null`;
  const page = (beyond: string) =>
    `select ${[...names, ...(also === undefined ? [] : [also])].map((name) => `${name}::text`).join(', ')},
      encode(substring(bytes from 2 for 4), 'hex') as key_id,
      case when substring(bytes from 2 for 4) <> $1 then bytes end as sealed
    from (
      select *, ${bytes} as bytes
      from ${table}
      where ${isSealed} ${beyond}
      order by ${names.join(', ')}
      limit ${PAGE}
    ) as page
    order by ${names.map((name) => `page.${name}`).join(', ')}`;
  const parameters = types.map((type, at) => `$${at + 2}::${type}`);
  const lists = types.map((type, at) => `$${at + 1}::${type}[]`);
  const same = names.map((name) => `t.${name} = n.${name}`).join(' and ');
  const written = base64 ? "translate(encode(n.sealed, 'base64'), E'\\n', '')" : 'n.sealed';
  const value = base64 ? `decode(t.${column}, 'base64')` : `t.${column}`;
  const statements = {
    first: sql(`reseal_first_${table}_${column}`, page('')),
    next: sql(
      `reseal_next_${table}_${column}`,
      page(`and (${names.join(', ')}) > (${parameters.join(', ')})`),
    ),
    // Only values that are unchanged since they were read: a concurrent write has sealed its own value.
    update: sql(
      `reseal_${table}_${column}`,
      `update ${table} t
      set ${column} = ${written}
      from unnest(${lists.join(', ')}, $${types.length + 1}::bytea[], $${types.length + 2}::bytea[])
        as n (${names.join(', ')}, was, sealed)
      where ${same} and ${base64 ? `t.${column} like 'A%' and ` : ''}${value} = n.was
      returning 1 as one`,
    ),
    // Reads the whole table, for doctor.
    unreadable: sql(
      `count_unreadable_${table}_${column}`,
      `select encode(substring(${head} from 2 for 4), 'hex') as key_id, count(*)::int as count
      from ${table}
      where ${isSealed} and encode(substring(${head} from 2 for 4), 'hex') <> all ($1::text[])
      group by 1
      order by 1`,
    ),
  };
  made.set(sealed, statements);
  return statements;
}

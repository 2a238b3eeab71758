import { loadModule, parse } from 'libpg-query';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Database, openDatabase, sql } from '../../src/db/client.ts';
import { allStatements } from '../support/all-statements.ts';
import { createTestDatabase, type TestDatabase } from '../support/database.ts';

// The SQL of Belfry also runs on a distributed PostgreSQL (Citus), which moves its tables between servers
// under load. Such a server rejects or misinterprets some statements that a single PostgreSQL accepts. These
// tests check every named statement with PostgreSQL's own parser.

type Node = { [member: string]: unknown };
type Volatility = 'i' | 's' | 'v';

let database: TestDatabase;
let db: Database;
/** The volatilities of the functions of each name. */
let volatilities: ReadonlyMap<string, ReadonlySet<Volatility>>;
const statements = new Map<string, Node>();

beforeAll(async () => {
  database = await createTestDatabase();
  db = openDatabase(database.connection, { size: 1, name: 'sql-rules' });
  const functions = await db.query<{ name: string; kinds: Volatility[] }>(
    sql(
      '',
      'select proname as name, array_agg(distinct provolatile)::text[] as kinds from pg_proc group by 1',
    ),
  );
  volatilities = new Map(functions.map(({ name, kinds }) => [name, new Set(kinds)]));
  await loadModule();
  for (const [name, text] of await allStatements()) statements.set(name, (await parse(text)) as Node);
});
afterAll(async () => {
  await db.close();
  await database.drop();
});

test('no statement that changes rows calls a volatile function', () => {
  expect(violations((statement) => modifications(statement).flatMap((node) => calls(node, 'v')))).toEqual([]);
});

test('an upsert sets only immutable values', () => {
  const found = violations((statement) =>
    nodes(statement, 'onConflictClause').flatMap((node) => [
      ...calls(node.targetList, 'v'),
      ...calls(node.targetList, 's'),
    ]),
  );
  expect(found).toEqual([]);
});

// The workers get the clause as it is, and cannot tell the types of its parameters.
test('an upsert of selected rows has no parameter in its clause for conflicts', () => {
  const found = violations((statement) =>
    nodes(statement, 'stmt')
      .flatMap(({ InsertStmt }) => (InsertStmt ? [InsertStmt as Node] : []))
      .filter(({ selectStmt }) => nodes(selectStmt, 'valuesLists').length === 0)
      .flatMap(({ onConflictClause }) => nodes(onConflictClause, 'ParamRef'))
      .map(({ number }) => `$${number}`),
  );
  expect(found).toEqual([]);
});

test('an upsert adds no interval to a time, which depends on the time zone of the session', () => {
  const found = violations((statement) =>
    nodes(statement, 'onConflictClause').flatMap((node) =>
      nodes(node, 'TypeCast')
        .map(({ typeName }) => nodes(typeName, 'String').map(({ sval }) => `${sval}`))
        .filter(
          (names) =>
            names.includes('interval') &&
            nodes(node, 'FuncCall').every((call) => nameOf(call) !== 'timezone'),
        )
        .map((names) => names.join('.')),
    ),
  );
  expect(found).toEqual([]);
});

// The worker would call it, after the coordinator has called the same one for the values.
test('no statement returns the time of changed rows', () => {
  const found = violations((statement) =>
    modifications(statement).flatMap(({ returningList, returningClause }) =>
      calls([returningList, returningClause], 's'),
    ),
  );
  expect(found).toEqual([]);
});

test('no update calls a stable function in a case or a coalesce', () => {
  const found = violations((statement) =>
    nodes(statement, 'UpdateStmt').flatMap(({ targetList }) =>
      [...nodes(targetList, 'CaseExpr'), ...nodes(targetList, 'CoalesceExpr')].flatMap((expression) =>
        calls(withoutSelects(expression), 's'),
      ),
    ),
  );
  expect(found).toEqual([]);
});

test('no update or delete calls a stable function with a column', () => {
  const found = violations((statement) =>
    [...nodes(statement, 'UpdateStmt'), ...nodes(statement, 'DeleteStmt')].flatMap((node) => {
      const parts = [node.targetList, node.whereClause, node.usingClause];
      return [
        ...calls(parts, 's', (call) => nodes(call, 'ColumnRef').length > 0),
        // A text becomes a time by a function that is stable.
        ...nodes(parts, 'TypeCast')
          .filter(({ arg }) => nodes(arg, 'ColumnRef').length > 0)
          .flatMap(({ typeName }) => nodes(typeName, 'String').map(({ sval }) => `${sval}`))
          .filter((name) => /^(time|date$)/.test(name)),
      ];
    }),
  );
  expect(found).toEqual([]);
});

test('the condition of an insert that selects reads a table only in a materialized expression', () => {
  const found = violations((statement) => {
    const known = new Set(materialized(statement));
    return nodes(statement, 'InsertStmt')
      .flatMap((insert) => nodes(insert.selectStmt, 'whereClause', isMaterialized))
      .flatMap((condition) => nodes(condition, 'SubLink'))
      .flatMap((subquery) => nodes(subquery, 'RangeVar'))
      .map((table) => String(table.relname))
      .filter((name) => !known.has(name));
  });
  expect(found).toEqual([]);
});

// They would run on the server of the table. Its transactions and locks are not those of the coordinator,
// which writes the ids of transactions into rows.
test('no statement that reads a table asks its server about transactions or locks', () => {
  const found = violations((statement) => {
    const known = new Set(nodes(statement, 'CommonTableExpr').map(({ ctename }) => ctename));
    const reads = nodes(statement, 'RangeVar').some(
      ({ relname }) => !known.has(relname) && !/^pg_/.test(`${relname}`),
    );
    if (!reads || modifications(statement).length > 0) return [];
    return [...calls(statement, 's'), ...calls(statement, 'v')].filter((name) =>
      /snapshot|xact_id|advisory|notify/.test(name),
    );
  });
  expect(found).toEqual([]);
});

test('no statement changes the state of a session', () => {
  const STATE = [
    'VariableSetStmt',
    'ListenStmt',
    'UnlistenStmt',
    'PrepareStmt',
    'DeclareCursorStmt',
    'DiscardStmt',
  ];
  const found = violations((statement) => [
    ...STATE.filter((kind) => nodes(statement, kind).length > 0),
    ...functionCalls(statement)
      .map(nameOf)
      // The locks of a transaction end with it.
      .filter((name) => /advisory/.test(name) && !/_xact_/.test(name)),
  ]);
  expect(found).toEqual([]);
});

test('no table is unlogged, and partitions have one level', async () => {
  const tables = await db.query<{ name: string }>(
    sql(
      '',
      `select relname as name from pg_class join pg_namespace n on n.oid = relnamespace
       where nspname = current_schema()
         and (relkind in ('r', 'p') and relpersistence = 'u' or relkind = 'p' and relispartition)`,
    ),
  );
  expect(tables).toEqual([]);
});

// Citus moves tables by logical replication.
test('every table has a way to identify its rows', async () => {
  const tables = await db.query<{ name: string }>(
    sql(
      '',
      `select relname as name from pg_class join pg_namespace n on n.oid = relnamespace
       where nspname = current_schema() and relkind in ('r', 'p') and relreplident = 'd'
         and not exists (select from pg_index where indrelid = pg_class.oid and indisprimary)`,
    ),
  );
  expect(tables).toEqual([]);
});

/** The statements in which `look` finds something, as `name: finding`. */
function violations(look: (statement: Node) => readonly string[]): string[] {
  return [...statements].flatMap(([name, tree]) =>
    [...new Set(look(tree))].map((what) => `${name}: ${what}`),
  );
}

/** All nodes of a kind in a tree, except those within nodes of the kinds in `skip`. */
function nodes(tree: unknown, kind: string, skip: (node: Node) => boolean = () => false): Node[] {
  if (typeof tree !== 'object' || tree === null || skip(tree as Node)) return [];
  return Object.entries(tree).flatMap(([key, child]) => [
    ...(key === kind ? [child as Node] : []),
    ...nodes(child, kind, skip),
  ]);
}

/** A tree without the selects in it. */
function withoutSelects(tree: unknown): unknown {
  if (typeof tree !== 'object' || tree === null) return tree;
  if (Array.isArray(tree)) return tree.map(withoutSelects);
  return Object.fromEntries(
    Object.entries(tree)
      .filter(([key]) => key !== 'SelectStmt')
      .map(([key, child]) => [key, withoutSelects(child)]),
  );
}

function isMaterialized({ ctematerialized }: Node): boolean {
  return ctematerialized === 'CTEMaterializeAlways';
}

function modifications(statement: Node): Node[] {
  return ['InsertStmt', 'UpdateStmt', 'DeleteStmt', 'MergeStmt'].flatMap((kind) => nodes(statement, kind));
}

function functionCalls(tree: unknown): Node[] {
  return nodes(tree, 'FuncCall');
}

function nameOf(call: Node): string {
  const parts = nodes(call.funcname, 'String');
  return String(parts.at(-1)?.sval);
}

/** The called functions of this volatility. Functions that also have an immutable form are omitted. */
function calls(
  tree: unknown,
  volatility: Volatility,
  counts: (call: Node) => boolean = () => true,
): string[] {
  const own = functionCalls(tree).filter((call) => {
    const kinds = volatilities.get(nameOf(call));
    return kinds?.has(volatility) && !kinds.has('i') && counts(call);
  });
  const clock = volatility === 's' ? nodes(tree, 'SQLValueFunction').filter(counts) : [];
  return [...own.map(nameOf), ...clock.map(() => 'current_timestamp')];
}

/** The names of the common table expressions that are materialized. */
function materialized(statement: Node): string[] {
  return nodes(statement, 'CommonTableExpr')
    .filter(isMaterialized)
    .map(({ ctename }) => String(ctename));
}

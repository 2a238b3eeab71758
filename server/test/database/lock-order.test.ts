import { loadModule, parse } from 'libpg-query';
import { beforeAll, expect, test } from 'vitest';
import { allStatements } from '../support/all-statements.ts';

// Statements that lock several rows lock them in an order that they state, or skip those that are locked:
// docs/decisions/0061-order-of-locks.md.

type Node = { [member: string]: unknown };

/** Statements that need no order of their own, as `name: table`, and why. */
const EXCEPTIONS: readonly [RegExp, reason: string][] = [
  // The rows are locked already.
  [/^count_down_broadcasts: broadcasts/, 'lock_broadcasts'],
  [/^fan_out(_careful)?: broadcasts/, 'lock_broadcasts, or no other transaction changes several of them'],
  [/^(continue_waiting_runs: workflow_runs|store_events_of_runs: )/, 'lock_waiting_runs'],
  [/^record_workflow_history: workflow_run_steps/, 'the runs of the steps'],
  [
    /^purge_workflow_runs(_of_users)?: workflow_(run_steps|digests|digest_items)/,
    'the runs that they are of',
  ],
  [/^delete_workflow_digest_items: /, 'delete_workflow_digests'],
  [/^update_workflow_throttles: /, 'lock_workflow_throttles'],
  [/^shift_jobs_of_wrong_clock: jobs/, 'lock_jobs_of_wrong_clock'],
  [/^update_workflow_schedules: /, 'lock_due_workflow_schedules or lock_later_workflow_schedules'],
  [/^(move_feeds_of_webhooks|(end|move)_webhook_replays): /, 'claim_webhooks'],
  [/^purge_(imports: user_import_pages|pages: broadcast_users|broadcasts: broadcast_texts)/, 'their parents'],
  [/^erase_broadcast_content: broadcast_texts/, 'the broadcasts that they are of'],
  [/^redact_broadcasts: /, 'broadcasts_to_redact'],
  [/^anonymize_installations: /, 'lock_installed_installations'],
  [/^discard_gone_tokens: token_owners/, 'lock_owners_of_gone_tokens'],
  [/^discard_oldest_devices: tokens/, 'their owners'],
  [/^purge_user_keys: /, 'lock_purged_user_keys'],
  [/^redact_events: /, 'lock_erased_users; nothing else changes events'],
  // Locks before the update made it read five times as much.
  [/^redact_deliveries: /, 'lock_erased_users; after a deadlock the purge continues'],
  [
    /^purge_(refused_recipients|preferences|user_delivery_windows|subscriptions|former_user_keys|users): /,
    'lock_erased_users',
  ],
  [/^purge_texts_of_users: /, 'lock_erased_users, or purge_claim_pages'],
  // In an order that this test does not see.
  [/^erase_suppressed_addresses: /, 'one by one, in the order of the values'],
  [/^(read|seen|archive)_all_\w+: notifications/, 'the user is locked; unsnooze_notifications locks it too'],
  [/^(delete|release)_keys: |^delete_user_key: /, 'retry-on-conflict.ts'],
  // A single row.
  [/^(read|unread|seen|archive|unarchive|delete|snooze)_notification: /, 'one notification'],
  [/^click_(in_app|push): /, 'one notification'],
  [/^save_(category|user_delivery_windows|user_times): /, 'one row'],
  [/^replace_sealing_key: /, 'one row'],
  [/^remove_project_key: project_key_uses/, 'one row'],
];

const found: string[] = [];

beforeAll(async () => {
  await loadModule();
  for (const [name, text] of await allStatements())
    for (const table of withoutOrder((await parse(text)) as Node)) found.push(`${name}: ${table}`);
});

test('each statement locks its rows in a stated order', () => {
  expect(found.filter((one) => !EXCEPTIONS.some(([pattern]) => pattern.test(one)))).toEqual([]);
});

test('each exception is needed', () => {
  const unused = EXCEPTIONS.filter(([pattern]) => !found.some((one) => pattern.test(one)));
  expect(unused.map(([pattern]) => pattern.source)).toEqual([]);
});

/** The tables of which a statement locks several rows in the order of its plan. */
function withoutOrder(tree: Node): string[] {
  const selects = nodes(tree, 'SelectStmt');
  const inTurns = new Set(selects.flatMap(lockedInTurns));
  const locking = selects.filter(({ lockingClause }) => lockingClause !== undefined);
  const isOrdered = (select: Node) => locksInOrder(select) || inTurns.has(select);
  const ordered = new Set(locking.filter(isOrdered).flatMap((select) => tablesIn(select.fromClause)));
  const changed = [...nodes(tree, 'UpdateStmt'), ...nodes(tree, 'DeleteStmt')]
    .filter(changesSeveral)
    .map(({ relation }) => tableOf(relation as Node));
  const inserted = nodes(tree, 'InsertStmt')
    .filter(({ onConflictClause, selectStmt }) => onConflictClause !== undefined && isUnordered(selectStmt))
    .map(({ relation }) => tableOf(relation as Node));
  const locked = locking
    .filter((select) => !isOrdered(select) && !isOfOneRow(select.whereClause))
    .flatMap((select) => tablesIn(select.fromClause));
  return [...new Set([...changed.filter((table) => !ordered.has(table)), ...inserted, ...locked])];
}

/** The lateral subqueries of a select that get their values from a sorted one: they lock in its order. */
function lockedInTurns({ fromClause }: Node): Node[] {
  const parts = nodes(fromClause, 'RangeSubselect');
  const queryOf = ({ subquery }: Node) => ((subquery as Node)?.SelectStmt ?? {}) as Node;
  const isSorted = parts.some((part) => part.lateral !== true && queryOf(part).sortClause !== undefined);
  return isSorted ? parts.filter(({ lateral }) => lateral === true).map(queryOf) : [];
}

function locksInOrder({ lockingClause, sortClause }: Node): boolean {
  const clauses = nodes(lockingClause, 'LockingClause');
  return sortClause !== undefined || clauses.every(({ waitPolicy }) => waitPolicy === 'LockWaitSkip');
}

/** Whether rows that are inserted come from a query in no order. */
function isUnordered(source: unknown): boolean {
  const { fromClause, sortClause } = ((source as Node)?.SelectStmt ?? {}) as Node;
  return fromClause !== undefined && sortClause === undefined;
}

function changesSeveral({ fromClause, usingClause, whereClause }: Node): boolean {
  return fromClause !== undefined || usingClause !== undefined || !isOfOneRow(whereClause);
}

/** Whether a condition compares something with a single value, and nothing with a list. */
function isOfOneRow(condition: unknown): boolean {
  const comparisons = nodes(condition, 'A_Expr');
  return (
    comparisons.every(({ kind }) => kind !== 'AEXPR_OP_ANY') &&
    comparisons.some(({ rexpr }) => nodes([rexpr], 'ParamRef').length + nodes([rexpr], 'A_Const').length > 0)
  );
}

function tablesIn(tree: unknown): string[] {
  return nodes(tree, 'RangeVar').map(tableOf);
}

function tableOf({ relname }: Node): string {
  return String(relname);
}

/** All nodes of a kind in a tree. */
function nodes(tree: unknown, kind: string): Node[] {
  if (typeof tree !== 'object' || tree === null) return [];
  return Object.entries(tree).flatMap(([key, child]) => [
    ...(key === kind ? [child as Node] : []),
    ...nodes(child, kind),
  ]);
}

import type { ImportFailure, ImportUser } from '../../../contract/user-import.ts';
import { type Database, type Queryable, sql } from '../../../db/client.ts';
import { readJson } from '../../../lib/exact-numbers.ts';
import { packJson, unpackJson } from '../../../lib/packed-json.ts';
import { isTracing, traced } from '../../../lib/tracing.ts';
import { complete } from '../../../queue/complete.ts';
import { discardReason } from '../../../queue/discard-reason.ts';
import { enqueue } from '../../../queue/enqueue.ts';
import { type Handler, ONE_JOB } from '../../../queue/handler.ts';
import { BULK, type Job } from '../../../queue/jobs.ts';
import type { Bus } from '../../ground/bus/messages.ts';
import type { Identities } from '../../ground/identities/identities.ts';
import { publishChanges, type Resolved, resolveUsers } from '../users/resolve.ts';
import { retryOnConflict } from '../users/retry-on-conflict.ts';
import { personOf } from '../users/save.ts';

/*
 * A page is imported by one transaction, which also completes its job and writes the job of the next page. So
 * after a crash the import continues with the page that was not committed. The pages of an import run one
 * after the other: of two rows about one user, the later one counts.
 */

interface ImportContext {
  db: Pick<Database, 'transaction'>;
  identities: Identities;
  bus: Bus;
}

/** Imports the next page. */
export function importHandler(context: ImportContext): Handler<'import_users'> {
  return {
    work: 'bulk',
    slots: 2,
    slotsPerPartition: 2,
    ...ONE_JOB,
    async run(jobs, leaseId) {
      const importOne = isTracing() ? importTraced : importPage;
      for (const job of jobs) await importOne(context, job, leaseId);
      return ['import_users'];
    },
    discard: (job, leaseId, error) => discard(context, job, leaseId, error),
  };
}

type Row = [row: number, user: ImportUser];

/** Rows whose identities belong to two users, each with its problem. */
class ConflictingRows extends Error {
  readonly rows: ReadonlyMap<number, string>;

  constructor(rows: ReadonlyMap<number, string>) {
    super('identities belong to two users');
    this.rows = rows;
  }
}

/** One span for each page. They are siblings below the request that started the import. */
function importTraced(context: ImportContext, job: Job<'import_users'>, leaseId: string): Promise<void> {
  const { import_id: importId, page, traceparent: parent } = job.payload;
  const attributes = {
    'belfry.project.id': job.projectId,
    'belfry.import.id': importId,
    'belfry.page': page,
  };
  return traced('import users', { kind: 'consumer', parent, attributes }, () =>
    importPage(context, job, leaseId),
  );
}

async function importPage(
  { db, identities, bus }: ImportContext,
  job: Job<'import_users'>,
  leaseId: string,
): Promise<void> {
  const conflicts = new Map<number, string>();
  for (;;) {
    try {
      const resolved = await retryOnConflict(() =>
        db.transaction((tx) => importRows(tx, identities, job, leaseId, conflicts)),
      );
      resolved?.remember();
      if (resolved !== undefined) publishChanges(bus, resolved);
      return;
    } catch (error) {
      if (!(error instanceof ConflictingRows)) throw error;
      // The transaction was rolled back, so that nothing of these rows is stored. The others are imported.
      for (const [row, problem] of error.rows) conflicts.set(row, problem);
    }
  }
}

async function importRows(
  tx: Queryable,
  identities: Identities,
  { id: jobId, projectId, payload }: Job<'import_users'>,
  leaseId: string,
  conflicts: ReadonlyMap<number, string>,
): Promise<Resolved | undefined> {
  await complete(tx, leaseId, [jobId]);
  const page = await readPage(tx, payload);
  if (page === undefined) return undefined;
  const rows = page.rows.filter(([row]) => !conflicts.has(row));
  const people = rows.map(([, user]) => personOf(projectId, user));
  const resolved = await resolveUsers(tx, identities, people, 'restore');
  if (resolved.conflicts.length > 0) {
    const problem = "Param 'email' belongs to another user";
    throw new ConflictingRows(
      new Map(resolved.conflicts.map(({ person }) => [(rows[person] as Row)[0], problem])),
    );
  }
  const failed = page.rows.flatMap(([row, user]) => failureOf(row, user, conflicts.get(row)));
  const { created, updated, restored } = resolved;
  await finishPage(tx, projectId, payload, {
    size: page.size,
    failures: [...page.failures, ...failed].sort((a, b) => a.row - b.row),
    created: created.size,
    updated: new Set([...updated, ...restored]).size,
  });
  return resolved;
}

function failureOf(row: number, user: ImportUser, problem: string | undefined): ImportFailure[] {
  if (problem === undefined) return [];
  const { external_id, email } = user;
  const named = { ...(external_id ? { external_id } : {}), ...(email ? { email } : {}) };
  return [{ row, user: named, errors: [{ message: problem }] }];
}

/** Records that the rows of a page failed because of a bug, and continues with the next page. */
async function discard(
  { db }: ImportContext,
  job: Job<'import_users'>,
  leaseId: string,
  error: unknown,
): Promise<void> {
  const problem = `Not imported: ${discardReason(job, error)}`;
  const { id, projectId, payload } = job;
  await db.transaction(async (tx) => {
    await complete(tx, leaseId, [id]);
    const page = await readPage(tx, payload);
    if (page === undefined) return;
    const failed = page.rows.flatMap(([row, user]) => failureOf(row, user, problem));
    const failures = [...page.failures, ...failed].sort((a, b) => a.row - b.row);
    await finishPage(tx, projectId, payload, { size: page.size, failures, created: 0, updated: 0 });
  });
}

type Payload = Job<'import_users'>['payload'];

async function readPage(
  tx: Queryable,
  { import_id, page }: Payload,
): Promise<{ size: number; rows: Row[]; failures: ImportFailure[] } | undefined> {
  const [found] = await tx.query<{ size: number; rows: Buffer; failures: Buffer | null }>(selectPage, [
    import_id,
    page,
  ]);
  return (
    found && {
      size: found.size,
      rows: readJson(unpackJson(found.rows)) as Row[],
      failures: found.failures === null ? [] : (JSON.parse(unpackJson(found.failures)) as ImportFailure[]),
    }
  );
}

/** Erases the rows of a page except those that failed, counts them, and enqueues the next page. */
async function finishPage(
  tx: Queryable,
  projectId: string,
  { import_id, page, ...rest }: Payload,
  counts: { size: number; failures: readonly ImportFailure[]; created: number; updated: number },
): Promise<void> {
  const { size, failures, created, updated } = counts;
  const packed = failures.length === 0 ? null : packJson(JSON.stringify(failures));
  await tx.query(erasePage, [import_id, page, packed]);
  const [progress] = await tx.query<{ finished: boolean }>(countPage, [
    import_id,
    size,
    created,
    updated,
    failures.length,
  ]);
  if (progress?.finished !== false) return;
  const payload = { ...rest, import_id, page: page + 1 };
  await enqueue(tx, [{ kind: 'import_users', projectId, priority: BULK, weight: 1, payload }]);
}

// Primary keys.
const selectPage = sql(
  'import_page',
  `select size, rows, failures
  from user_import_pages
  where import_id = $1 and page = $2 and rows is not null
  for update`,
);
const erasePage = sql(
  'erase_import_page',
  'update user_import_pages set rows = null, failures = $3 where import_id = $1 and page = $2',
);
const countPage = sql(
  'count_import_page',
  `with time as materialized (select now() as now)
  update user_imports
  set done = done + $2, created = created + $3, updated = updated + $4, failed = failed + $5,
    status = case when done + $2 >= total then 'processed' else 'processing' end,
    processed_at = case when done + $2 >= total then (select now from time) end
  where id = $1
  returning done >= total as finished`,
);

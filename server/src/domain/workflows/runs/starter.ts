import { type Database, isDatabaseUnavailable, type Queryable } from '../../../db/client.ts';
import { ClientError } from '../../../errors.ts';
import { Batcher } from '../../../lib/batcher.ts';
import { priorityFor } from '../../../queue/jobs.ts';
import {
  errorIn,
  errorResponse,
  findReplay,
  type IdempotencyKey,
  nameOf,
  type StoredResponse,
  storeResponses,
} from '../../ground/requests/idempotency.ts';
import {
  findVersions,
  inStartTransaction,
  type NewRun,
  newRun,
  type StartContext,
  type Versions,
  writeRuns,
} from './start.ts';

/** A run that was started, or an error. It does not affect the runs that were started with it. */
export type StartResult = ({ id: string } | { error: unknown }) & {
  /** The result is that of an earlier request with the same Idempotency-Key. */
  replayed: boolean;
};

type PendingRun = NewRun & { idempotency: IdempotencyKey | undefined };

// As broadcasts are accepted (line/accept/send-broadcast.ts).
const CONCURRENCY = 2;
const GATHER_BELOW_BYTES = 256 * 1024;
const MAX_RUNS = 512;
const MAX_BYTES = 8 * 1024 * 1024;

/**
 * Starts single runs. Those that arrive together share a transaction, in which their idempotency keys are
 * stored as well.
 */
export class RunStarter {
  readonly #context: StartContext & { db: Pick<Database, 'query'> };
  readonly #onStarted: () => void;
  readonly #batcher: Batcher<PendingRun, StartResult>;

  /** `onStarted` is called when jobs of runs were committed. */
  constructor(context: StartContext & { db: Pick<Database, 'query'> }, onStarted: () => void) {
    this.#context = context;
    this.#onStarted = onStarted;
    this.#batcher = new Batcher({
      concurrency: CONCURRENCY,
      gatherBelow: GATHER_BELOW_BYTES,
      maxItems: MAX_RUNS,
      maxWeight: MAX_BYTES,
      weigh: ({ packed }: PendingRun) => packed.length,
      run: (runs) => this.#commit(runs),
      // One run may have made a statement fail: the others of the batch must not fail with it.
      splitAfter: (error) => !isDatabaseUnavailable(error),
    });
  }

  /** Resolves when the run is committed, by this call or by an earlier one with the same key. */
  start(
    projectId: string,
    { key, input, idempotency }: Pick<NewRun, 'key' | 'input'> & Pick<PendingRun, 'idempotency'>,
  ): Promise<StartResult> {
    return this.#batcher.add({ ...newRun(projectId, key, input), idempotency });
  }

  async #commit(runs: readonly PendingRun[]): Promise<StartResult[]> {
    const results = await inStartTransaction(this.#context, (tx) => this.#start(tx, firstOfEachKey(runs)));
    if ([...results.values()].some((result) => 'id' in result)) this.#onStarted();
    // The others reused a key, of an earlier request or of another one in this batch.
    return Promise.all(runs.map(async (run) => results.get(run) ?? this.#replay(run)));
  }

  /** Starts runs. Those that reused a key have no result. */
  async #start(tx: Queryable, runs: readonly PendingRun[]) {
    const versions = await findVersions(tx, runs);
    const unused = await this.#storeKeys(tx, runs, versions);
    const result = new Map<PendingRun, StartResult>();
    const accepted: PendingRun[] = [];
    for (const run of unused) {
      const error = versions.refusalOf(run);
      result.set(run, { ...(error === undefined ? { id: run.id } : { error }), replayed: false });
      if (error === undefined) accepted.push(run);
    }
    const { versionOf } = versions;
    const users =
      accepted.length === 0
        ? undefined
        : await writeRuns(tx, this.#context, accepted, { versionOf, priority: priorityFor(1) });
    return { users, result };
  }

  /** Stores the keys with the responses. Returns the runs that have no key or a new one. */
  async #storeKeys(
    tx: Queryable,
    runs: readonly PendingRun[],
    { refusalOf }: Versions,
  ): Promise<readonly PendingRun[]> {
    const keyed = runs.flatMap((run) =>
      run.idempotency === undefined
        ? []
        : [{ run, key: run.idempotency, response: responseOf(run, refusalOf(run)) }],
    );
    if (keyed.length === 0) return runs;
    const { clock } = this.#context;
    const stored = await storeResponses({ tx, clock }, keyed);
    const reused = new Set(keyed.filter((_, index) => !stored[index]).map(({ run }) => run));
    return runs.filter((run) => !reused.has(run));
  }

  async #replay({ idempotency }: PendingRun): Promise<StartResult> {
    try {
      const stored = idempotency && (await findReplay(this.#context, idempotency));
      if (stored === undefined) throw new ClientError('idempotency_conflict');
      const error = errorIn(stored);
      return { ...(error === undefined ? { id: JSON.parse(stored.body).id } : { error }), replayed: true };
    } catch (error) {
      return { error, replayed: false };
    }
  }
}

function responseOf({ id }: PendingRun, refusal: ClientError | undefined): StoredResponse {
  return refusal === undefined ? { status: 200, body: JSON.stringify({ id }) } : errorResponse(refusal);
}

/** The runs without those whose key occurs twice: one statement can insert each only once. */
function firstOfEachKey(runs: readonly PendingRun[]): PendingRun[] {
  const first = new Map<string, PendingRun>();
  for (const run of runs) {
    const name = run.idempotency === undefined ? run.id : nameOf(run.idempotency);
    if (!first.has(name)) first.set(name, run);
  }
  return [...first.values()];
}

import { isOfOneItem, type Queryable } from '../../../db/client.ts';
import { ClientError } from '../../../errors.ts';
import { Batcher } from '../../../lib/batcher.ts';
import type { JobKind } from '../../../queue/jobs.ts';
import {
  errorIn,
  errorResponse,
  findReplay,
  type IdempotencyKey,
  nameOf,
  type StoredResponse,
  storeResponses,
} from '../../ground/requests/idempotency.ts';
import { retryOnConflict } from '../../people/users/retry-on-conflict.ts';
import { type NewRun, newRun, type StartContext } from '../runs/start.ts';
import type { WorkflowContext } from '../steps/command.ts';
import { type Advanced, idleTurn } from './advance.ts';
import { type LoadedStart, loadStarts } from './load-starts.ts';
import { recordTurns, type Turns } from './record.ts';
import { takeTurn } from './take-turn.ts';

/** A run that was started, or an error. It does not affect the runs that were started with it. */
export type StartResult = ({ id: string } | { error: unknown }) & {
  /** The result is that of an earlier request with the same Idempotency-Key. */
  replayed: boolean;
};

type PendingRun = NewRun & {
  idempotency: IdempotencyKey | undefined;
  /** Why it cannot start. */
  refusal?: ClientError;
  /** Its first turn. */
  turn?: Advanced;
};

// As broadcasts are accepted (line/accept/send-broadcast.ts).
const CONCURRENCY = 2;
const GATHER_BELOW_BYTES = 256 * 1024;
const MAX_RUNS = 512;
const MAX_BYTES = 8 * 1024 * 1024;

/**
 * Starts single runs. Those that arrive together share a transaction, in which their idempotency keys are
 * stored as well. Each is stored as it is after its first turn, with what that sends, so that it needs no job
 * for it.
 */
export class RunStarter {
  readonly #context: WorkflowContext & StartContext;
  readonly #wake: (kind: JobKind) => void;
  readonly #loads: Batcher<NewRun, LoadedStart>;
  readonly #commits: Batcher<PendingRun, StartResult>;

  /** `wake` is called with the kinds of jobs that were committed. */
  constructor(context: WorkflowContext & StartContext, wake: (kind: JobKind) => void) {
    this.#context = context;
    this.#wake = wake;
    // One run may have made a statement fail: the others of the batch must not fail with it.
    this.#commits = new Batcher({
      concurrency: CONCURRENCY,
      gatherBelow: GATHER_BELOW_BYTES,
      maxItems: MAX_RUNS,
      maxWeight: MAX_BYTES,
      weigh: ({ packed, turn }: PendingRun) => packed.length + (turn?.broadcast?.bytes ?? 0),
      run: (runs) => this.#commit(runs),
      splitAfter: isOfOneItem,
    });
    this.#loads = new Batcher({
      concurrency: CONCURRENCY,
      gatherBelow: MAX_RUNS,
      maxItems: MAX_RUNS,
      run: (runs) => loadStarts(this.#context, runs),
      // The requests that come meanwhile share its statement and, most of them, the next commit.
      after: this.#commits,
      splitAfter: isOfOneItem,
    });
  }

  /** Resolves when the run is committed, by this call or by an earlier one with the same key. */
  async start(
    projectId: string,
    { key, input, idempotency }: Pick<NewRun, 'key' | 'input'> & Pick<PendingRun, 'idempotency'>,
  ): Promise<StartResult> {
    const run = newRun(projectId, key, input, { savesUser: true });
    // A replayed request must not save former details once more.
    const mayReplay = run.details !== undefined && idempotency !== undefined;
    if (mayReplay && (await findReplay(this.#context, idempotency)) !== undefined)
      return this.#replay({ ...run, idempotency });
    const loaded = await this.#loads.add(run);
    if ('refusal' in loaded) return this.#commits.add({ ...run, idempotency, refusal: loaded.refusal });
    const taken = takeTurn(this.#context, loaded.run, 'start', run.traceparent);
    const turn = await taken.catch((error: unknown) => {
      // A worker takes it, and retries it if it fails again.
      this.#context.log.error({ err: error, projectId, run: run.id }, 'the first turn of a run failed');
      return idleTurn(loaded.run, { kind: 'continue' });
    });
    return this.#commits.add({ ...run, idempotency, turn });
  }

  async #commit(runs: readonly PendingRun[]): Promise<StartResult[]> {
    const distinct = firstOfEachKey(runs);
    const broadcasts = distinct.flatMap(({ turn }) => turn?.broadcast ?? []);
    // Their ids follow from those of the runs, which are new.
    const { results, kinds } = await this.#context.acceptor.acceptIn(
      broadcasts,
      { once: undefined },
      (accept) =>
        retryOnConflict(() => this.#context.db.transaction((tx) => this.#start(tx, distinct, accept))),
    );
    for (const kind of kinds) this.#wake(kind);
    // The others reused a key, of an earlier request or of another one in this batch.
    return Promise.all(runs.map(async (run) => results.get(run) ?? this.#replay(run)));
  }

  /** Writes runs. Those that reused a key have no result. */
  async #start(tx: Queryable, runs: readonly PendingRun[], accept: Turns['accept']) {
    const unused = await this.#storeKeys(tx, runs);
    const results = new Map<PendingRun, StartResult>(
      unused.map((run) => {
        const { id, refusal: error } = run;
        return [run, { ...(error === undefined ? { id } : { error }), replayed: false }];
      }),
    );
    const accepted = unused.filter(({ refusal }) => refusal === undefined);
    const kinds = await recordTurns(tx, {
      turns: accepted.flatMap(({ turn }) => turn ?? []),
      jobs: [],
      starting: new Map(accepted.map((run) => [run.id, run])),
      nowMs: this.#context.clock.now(),
      accept,
    });
    return { results, kinds: new Set(kinds) };
  }

  /** Stores the keys with the responses. Returns the runs that have no key or a new one. */
  async #storeKeys(tx: Queryable, runs: readonly PendingRun[]): Promise<readonly PendingRun[]> {
    const keyed = runs.flatMap((run) =>
      run.idempotency === undefined ? [] : [{ run, key: run.idempotency, response: responseOf(run) }],
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

function responseOf({ id, refusal }: PendingRun): StoredResponse {
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

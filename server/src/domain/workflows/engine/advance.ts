import { createHash } from 'node:crypto';
import { ClientError } from '../../../errors.ts';
import { readJson, writeJson } from '../../../lib/exact-numbers.ts';
import { type Condition, type ConditionData, ConditionError, evaluate } from '../../../lib/expression.ts';
import { timeOf } from '../../../lib/ids.ts';
import { takeTurns } from '../../../lib/take-turns.ts';
import { SlowRendering, TemplateError } from '../../../lib/template.ts';
import type { PendingBroadcast } from '../../line/accept/write-accepted.ts';
import { inTurn } from '../definitions/in-turn.ts';
import { placeAfter, placeIn, stepAt } from '../definitions/places.ts';
import { inputProblems, type ProgramStep } from '../definitions/program.ts';
import { type Call, partitionOfCalls } from '../runs/jobs.ts';
import { STAGES, type Stage, type StepRow } from '../runs/row.ts';
import type { SharedResult, StepResult, WorkflowContext } from '../steps/command.ts';
import { COMMANDS } from '../steps/commands.ts';
import type { LoadedRun } from './load.ts';
import { readableOf } from './readable.ts';

/** What a turn of a run changed. */
export interface Advanced {
  run: LoadedRun;
  place: string;
  stage: Stage;
  /** The steps that began or ended in this turn. */
  steps: readonly StepRow[];
  data: Readonly<Record<string, unknown>>;
  /** The last broadcast of the run. */
  broadcastId: string | null;
  /** The broadcast that this turn sends. */
  broadcast: PendingBroadcast | null;
  /** The rendered input of the next step as JSON, if the next turn begins with it. */
  prepared: string | null;
  /**
   * How many of these steps lead up to a change of something outside of the run that was made before this is
   * recorded, with the step that made it. Undefined if there was none.
   */
  actedSteps: number | undefined;
  /** Characters of the outputs of these steps as JSON. */
  added: number;
  next: Next;
  /**
   * A step that depends on other runs, and the turn with its result. This can be asked again: the transaction
   * in which the others are looked up may be repeated.
   */
  shared?: { request: SharedResult; decide: (result: StepResult) => Advanced };
}

/** What follows a turn. */
export type Next =
  | { kind: 'continue'; dueAtMs?: number; calls?: Call }
  | { kind: 'wait'; untilMs?: number; event?: string }
  | { kind: 'complete' }
  | { kind: 'abort'; reason: string | null }
  | { kind: 'fail'; error: string };

/** What takes a turn: a job, or the request that starts the run, which is not stored before the turn ends. */
export type TakenBy = { calls: Call | undefined } | 'start';

// The JSON text of `run.data`, and of the output of a step.
const MAX_DATA_CHARACTERS = 64 * 1024;
// The request that starts a run waits for its first turn. On a busy server this is time for many steps.
const MAX_MS_OF_START = 250;
// Between two looks whether a broadcast has been fanned out.
const MIN_DELAY_MS = 100;
const MAX_DELAY_MS = 300_000;

/**
 * Executes steps of a run until one waits, the run ends, or a second step would send a broadcast or change
 * something outside of the run. Writes nothing of the run itself, and no broadcast: these are committed
 * together. A change of something else is made at once. A turn that is repeated after a crash makes the same
 * change: what leads to it depends only on what is stored of the run. So a turn that has read anything else,
 * such as the user, ends before the change. The turn that starts a run makes no such change.
 */
export async function advance(context: WorkflowContext, run: LoadedRun, takenBy: TakenBy): Promise<Advanced> {
  return new Turn(context, run, takenBy).take();
}

/** A turn that has executed nothing. */
export function idleTurn(run: LoadedRun, next: Next): Advanced {
  const { place, stage, data, broadcast_id: broadcastId } = run;
  const state = { place, stage, steps: [], data, broadcastId, broadcast: null, prepared: null };
  return { run, ...state, actedSteps: undefined, added: 0, next };
}

class Turn {
  place: string;
  stage: Stage;
  steps: StepRow[] = [];
  data: Readonly<Record<string, unknown>>;
  broadcastId: string | null;
  broadcast: PendingBroadcast | null = null;
  prepared: string | null;
  #shared: Advanced['shared'];
  readonly #context: WorkflowContext;
  readonly #run: LoadedRun;
  /** Undefined if the job must not wait for another host. */
  readonly #call: Call | undefined;
  readonly #starts: boolean;
  readonly #beganMs = performance.now();
  /** Later after a step that has waited for another host. */
  #now: Date;
  #actedSteps: number | undefined;
  /** When the step at the current place began, if it did so in this turn. */
  #startedAt: Date | undefined;
  /** Whether a repetition of this turn could come to another result. */
  #varies = false;

  constructor(context: WorkflowContext, run: LoadedRun, takenBy: TakenBy) {
    this.#context = context;
    this.#run = run;
    this.#starts = takenBy === 'start';
    this.#call = takenBy === 'start' ? undefined : takenBy.calls;
    this.#now = new Date(context.clock.now());
    this.place = run.place;
    this.stage = run.stage;
    this.data = run.data;
    this.broadcastId = run.broadcast_id;
    this.prepared = run.prepared;
  }

  async take(): Promise<Advanced> {
    const between = takeTurns();
    for (;;) {
      const step = stepAt(this.#run.program, this.place);
      if (step === undefined) return this.#advanced({ kind: 'complete' });
      if (this.#starts && performance.now() - this.#beganMs > MAX_MS_OF_START)
        return this.#advanced({ kind: 'continue' });
      const next = await this.#execute(step);
      if (next !== undefined) return this.#advanced(next);
      await between();
    }
  }

  #advanced(next: Next): Advanced {
    const { place, stage, steps, data, broadcastId, broadcast, prepared } = this;
    const actedSteps = this.#actedSteps;
    const added = steps.reduce((sum, { output }) => sum + (output?.length ?? 0), 0);
    const state = { place, stage, steps, data, broadcastId, broadcast, prepared, actedSteps };
    const advanced = { run: this.#run, ...state, added, next };
    return this.#shared === undefined ? advanced : { ...advanced, shared: this.#shared };
  }

  /** Executes the step at the current place. Returns undefined if the next one can follow in this turn. */
  async #execute(step: ProgramStep): Promise<Next | undefined> {
    // The output of a wait for an event was stored when the event came.
    if (this.stage === STAGES.eventArrived) return this.#end(step, { state: 'completed' });
    if (this.stage === STAGES.waiting) return this.#wake(step);
    try {
      if (this.stage === STAGES.notBegun) {
        if (step.readsNotification && this.#run.awaitsNotification) return this.#awaitFanOut();
        this.#varies ||= step.conditionVaries;
        if (!(await this.#holds(step.condition))) return this.#end(step, { state: 'skipped' });
      }
      if (step.branches !== undefined) return await this.#enterBranch(step, step.branches);
      return await this.#begin(step);
    } catch (error) {
      if (error instanceof SlowRendering) return { kind: 'continue' }; // a worker renders it
      return this.#fail(step, problemOf(error));
    }
  }

  /** Continues with the same step soon: later each time, because the queue may be long. */
  #awaitFanOut(): Next {
    const nowMs = this.#now.getTime();
    const sinceMs = nowMs - timeOf(this.broadcastId ?? '');
    const delayMs = Math.min(Math.max(MIN_DELAY_MS, Math.round(sinceMs / 4)), MAX_DELAY_MS);
    return { kind: 'continue', dueAtMs: nowMs + delayMs };
  }

  #wake(step: ProgramStep): Next | undefined {
    const { digest } = this.#run;
    if (digest === null) {
      this.#endWait(step);
      // An event may still come first, until this is recorded.
      return step.command === 'wait_for' ? { kind: 'continue' } : undefined;
    }
    if (digest.isClosed) return this.#apply(step, { kind: 'done', output: digest.output });
    return { kind: 'wait', untilMs: digest.closesAtMs };
  }

  async #begin(step: ProgramStep): Promise<Next | undefined> {
    const command = COMMANDS.get(step.command);
    if (command === undefined) return this.#fail(step, `Command not found: ${step.command}`);
    const hasEffect = this.#actedSteps !== undefined || this.broadcast !== null;
    if ((command.acts || command.sends) && hasEffect) return { kind: 'continue' };
    const run = this.#run;
    const { id, project_id: projectId, user } = run;
    const { clock } = this.#context;
    const isPrepared = this.prepared !== null;
    const input =
      this.prepared === null ? await step.input(this.#readable(), !this.#starts) : readJson(this.prepared);
    const problems = isPrepared ? [] : inputProblems(step.command, input, 'rendered');
    if (problems.length > 0) return this.#fail(step, problems.join('; '));
    this.#varies ||= step.inputVaries;
    const needsCall = command.calls !== undefined && this.#call === undefined;
    if (needsCall || (!isPrepared && command.acts && (this.#varies || this.#starts))) {
      this.stage = STAGES.prepared;
      this.prepared = writeJson(input);
      const origin = command.calls?.(input as never);
      if (origin === undefined) return { kind: 'continue' };
      return { kind: 'continue', calls: { attempt: 0, partitionKey: partitionOfCalls(projectId, origin) } };
    }
    if (command.acts) this.#actedSteps = this.steps.length + 1;
    this.#startedAt = this.#now;
    const result = await command.begin(this.#context, {
      projectId,
      runId: id,
      user,
      input: input as never,
      // Only when it is read, because few steps send, and a hash takes as long as a step.
      get broadcastId() {
        return broadcastIdOf(run);
      },
      attempt: this.#call?.attempt ?? 0,
      readsBodies: run.program.reads.bodies,
    });
    if (command.calls !== undefined) this.#now = new Date(Math.max(this.#now.getTime(), clock.now()));
    if (result.kind !== 'collect' && result.kind !== 'throttle') return this.#apply(step, result);
    const { place, stage, steps, data, broadcastId, broadcast, prepared } = this;
    const before = { place, stage, steps, data, broadcastId, broadcast, prepared };
    this.#shared = { request: result, decide: (decided) => this.#conclude(step, before, decided) };
    return { kind: 'continue' };
  }

  /** Ends the turn, as it was before a step that depends on other runs, with the result of the step. */
  #conclude(step: ProgramStep, before: TurnState, result: StepResult): Advanced {
    Object.assign(this, before, { steps: [...before.steps] });
    this.#shared = undefined;
    return this.#advanced(this.#apply(step, result) ?? { kind: 'continue' });
  }

  #apply(step: ProgramStep, result: StepResult): Next | undefined {
    switch (result.kind) {
      case 'done': {
        const data = { ...this.data, ...result.data };
        const output = result.output === undefined ? null : writeJson(result.output);
        if (result.data !== undefined && writeJson(data).length > MAX_DATA_CHARACTERS)
          return this.#fail(step, `run.data has more than ${MAX_DATA_CHARACTERS} characters`);
        this.data = data;
        this.broadcastId = result.broadcastId ?? this.broadcastId;
        this.broadcast = result.broadcast ?? this.broadcast;
        this.#end(step, { state: 'completed', output });
        return this.#isStale(result) ? { kind: 'continue' } : undefined;
      }
      case 'wait':
        this.#record(step, { state: 'waiting' });
        this.stage = STAGES.waiting;
        return result;
      case 'retry': {
        const dueAtMs = this.#now.getTime() + result.delayMs;
        const call = this.#call;
        return { kind: 'continue', dueAtMs, ...(call && { calls: { ...call, attempt: call.attempt + 1 } }) };
      }
      case 'end':
        this.#end(step, { state: 'completed', output: writeJson(result.output) });
        return { kind: 'complete' };
      case 'abort':
        this.#end(step, { state: 'completed' });
        return { kind: 'abort', reason: result.reason || null };
      default:
        return this.#fail(step, result.error);
    }
  }

  /** Whether the steps that follow read what this one has changed: the next turn loads it. */
  #isStale({ broadcastId, changedUser }: StepResult & { kind: 'done' }): boolean {
    const { reads } = this.#run.program;
    return (broadcastId !== undefined && reads.notification) || (changedUser === true && reads.user);
  }

  #endWait(step: ProgramStep): undefined {
    const output = COMMANDS.get(step.command)?.timedOut;
    return this.#end(step, {
      state: 'completed',
      ...(output === undefined ? {} : { output: JSON.stringify(output) }),
    });
  }

  async #enterBranch(step: ProgramStep, branches: NonNullable<ProgramStep['branches']>): Promise<undefined> {
    let index = -1;
    for (const [at, { condition }] of branches.entries()) {
      if (!(await this.#holds(condition))) continue;
      index = at;
      break;
    }
    const output = JSON.stringify({ branch: index < 0 ? null : index });
    this.#record(step, { state: 'completed', output });
    const first = placeIn(this.place, index);
    this.#move(
      stepAt(this.#run.program, first) === undefined ? placeAfter(this.#run.program, this.place) : first,
    );
  }

  #end(step: ProgramStep, how: Ended): undefined {
    this.#record(step, how);
    this.#move(placeAfter(this.#run.program, this.place));
  }

  /** A failed step stays the next one, so that the run can continue with it. */
  #fail(step: ProgramStep, error: string): Next {
    this.#record(step, { state: 'failed', error });
    this.#move(this.place);
    return { kind: 'fail', error };
  }

  #move(place: string): void {
    this.place = place;
    this.stage = STAGES.notBegun;
    this.prepared = null;
    this.#startedAt = undefined;
  }

  #record({ command }: ProgramStep, { state, output = null, error = null }: Ended): void {
    const begun = this.#run.steps.find((one) => one.place === this.place && one.state === 'waiting');
    this.steps.push({
      place: this.place,
      command,
      state,
      started_at: begun?.started_at ?? this.#startedAt ?? this.#now,
      completed_at: state === 'waiting' ? null : this.#now,
      output: output ?? begun?.output ?? null,
      error,
    });
  }

  async #holds(condition: Condition | undefined): Promise<boolean> {
    return condition === undefined || (await inTurn(() => evaluate(condition, this.#readable())));
  }

  #readable(): ConditionData {
    return readableOf(this.#run, this);
  }
}

type TurnState = Pick<Turn, 'place' | 'stage' | 'steps' | 'data' | 'broadcastId' | 'broadcast' | 'prepared'>;
type Ended = Pick<StepRow, 'state'> & Partial<Pick<StepRow, 'output' | 'error'>>;

/** Returns the problem of a step; throws errors that are none of its own. */
function problemOf(error: unknown): string {
  if (error instanceof ConditionError) return `the condition cannot be evaluated: ${error.message}`;
  if (error instanceof TemplateError) return `the input cannot be rendered: ${error.message}`;
  // The server is busy: the turn is repeated.
  if (error instanceof ClientError && error.code !== 'service_unavailable') return error.message;
  throw error;
}

/** Returns the id of the broadcast of a turn: a UUIDv7 of its time, with bits that follow from the turn. */
function broadcastIdOf({ id, turn, due_at: dueAt }: LoadedRun): string {
  const hash = createHash('sha256').update(`${id} ${turn}`).digest();
  const bytes = Buffer.alloc(16);
  bytes.writeUIntBE(dueAt.getTime(), 0, 6);
  hash.copy(bytes, 6, 0, 10);
  bytes[6] = ((bytes[6] as number) & 0x0f) | 0x70;
  bytes[8] = ((bytes[8] as number) & 0x3f) | 0x80;
  return bytes.toString('hex').replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5');
}

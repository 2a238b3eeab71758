import type { Acceptor } from '../../line/accept/send-broadcast.ts';
import type { LineContext } from '../../line/context/context.ts';

export type WorkflowContext = LineContext & { acceptor: Acceptor };

/** A step that begins. */
export interface StepCall<Input> {
  projectId: string;
  runId: string;
  /** The user of the run. */
  user: { id: string; external_id: string | null; email: string | null } | null;
  /** Valid, with its templates rendered. */
  input: Input;
  /** The id for a broadcast of this step: the same whenever the step begins again after a crash. */
  broadcastId: string;
  /** The attempts before this one. */
  attempt: number;
}

/** How a step ended, or what it waits for. */
export type StepResult =
  | {
      kind: 'done';
      output?: object;
      /** The broadcast that it sent. */
      broadcastId?: string;
      /** Values for `run.data`. */
      data?: object;
      /** It has changed the user of the run. */
      changedUser?: true;
    }
  /** Until this time or an event of this name; without both, until the run is resumed. */
  | { kind: 'wait'; untilMs?: number; event?: string }
  | { kind: 'retry'; delayMs: number }
  /** Ends the run as completed. */
  | { kind: 'end'; output: object }
  | { kind: 'abort'; reason?: string }
  | { kind: 'fail'; error: string };

/**
 * A result that depends on other runs with the same `key`, by default those of the same user. The transaction
 * that records the turn decides it.
 */
export type SharedResult = Collect | Throttle;

export interface Collect {
  kind: 'collect';
  key?: string;
  windowMs: number;
  maxWindowMs: number;
}

export interface Throttle {
  kind: 'throttle';
  key?: string;
  windowMs: number;
  limit: number;
}

/** What a step does. Its input is described in contract/workflow.ts. */
export interface Command<Input = never> {
  /**
   * It changes something outside of the run. A turn has at most one such step, because it may begin again
   * after a crash. `once`: the second time it has no effect, whatever its input. `again`: it has the same
   * effect again if its input is the same.
   */
  acts?: 'once' | 'again';
  /** Waits for another host, so that it runs in a job of its own. */
  calls?: true;
  /** The output if it has waited until its time. */
  timedOut?: object;
  begin(context: WorkflowContext, call: StepCall<Input>): StepResult | SharedResult | Promise<StepResult>;
}

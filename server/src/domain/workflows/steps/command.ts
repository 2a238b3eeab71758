import type { Acceptor } from '../../line/accept/send-broadcast.ts';
import type { PendingBroadcast } from '../../line/accept/write-accepted.ts';
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
  /** The id for a broadcast of this step: the same whenever the step begins again. */
  broadcastId: string;
  /** The attempts before this one. */
  attempt: number;
  /** Whether the workflow reads members of the responses to its requests. */
  readsBodies: boolean;
}

/** How a step ended, or what it waits for. */
export type StepResult =
  | {
      kind: 'done';
      output?: object;
      /** The broadcast that it sends. */
      broadcastId?: string;
      /** The same, unless it was accepted before: the transaction that records the turn accepts it. */
      broadcast?: PendingBroadcast;
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
  | { kind: 'abort'; reason?: string | undefined }
  | { kind: 'fail'; error: string };

/**
 * A result that depends on other runs with the same `key`, by default those of the same user. The transaction
 * that records the turn decides it.
 */
export type SharedResult = Collect | Throttle;

export interface Collect {
  kind: 'collect';
  key?: string | undefined;
  windowMs: number;
  maxWindowMs: number;
}

export interface Throttle {
  kind: 'throttle';
  key?: string | undefined;
  windowMs: number;
  limit: number;
}

/** What a step does. Its input is described in contract/workflow.ts. */
export interface Command<Input = never> {
  /**
   * Changes something outside of the run before the turn is recorded. It may do so again after a crash, with
   * the same effect if its input is the same.
   */
  acts?: true;
  /** Sends a broadcast, whose id follows from the turn. */
  sends?: true;
  /** The origin of another host that it waits for, so that it runs in a job of its own. */
  calls?(input: Input): string;
  /** The output if it has waited until its time. */
  timedOut?: object;
  /**
   * Returns the problems of an input of any shape that its schema does not find. It may have templates: a
   * problem counts only if no template makes the value that it names.
   */
  problems?(input: unknown, nowMs: number): string[];
  /** The same for members that cannot be given together, whatever templates make of them. */
  conflicts?(input: unknown): string[];
  begin(context: WorkflowContext, call: StepCall<Input>): StepResult | SharedResult | Promise<StepResult>;
}

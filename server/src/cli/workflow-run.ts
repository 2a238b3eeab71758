import { setTimeout as sleep } from 'node:timers/promises';
import { RUN_STATES } from '../contract/workflow.ts';
import { isRecord } from '../lib/members.ts';
import { isNotFound, projectTarget, request, type ServerOptions, type Target } from './api.ts';
import { CommandError, UsageError } from './command.ts';
import { plain, print, printJson } from './output.ts';
import { type Run, readRun, stateName } from './workflow-runs.ts';

export interface RunOptions extends ServerOptions {
  input?: string;
  follow?: boolean;
  timeout: number;
  json?: boolean;
}

const FIRST_POLL_MS = 100;
const LONGEST_POLL_MS = 2_000;

/** `belfry workflow run`: starts a run. With --follow, exit code 1 unless it completes. */
export async function runWorkflow(key: string, options: RunOptions): Promise<void> {
  const { follow, json, timeout } = options;
  const body = JSON.stringify({ key, input: options.input === undefined ? {} : parseInput(options.input) });
  const target = projectTarget(options);
  const headers = { 'content-type': 'application/json' };
  const response = await request(target, '/workflows/runs', { method: 'POST', headers, body }).catch(
    (error: unknown) => {
      if (!isNotFound(error)) throw error;
      throw new CommandError(`there is no workflow ${key} in the project: belfry workflow push saves one`);
    },
  );
  const { id } = (await response.json()) as { id: string };
  if (!follow) return json ? printJson({ id }) : print(id);
  if (!json) print(id);
  const run = await followRun(target, id, { timeoutMs: timeout, quiet: json === true });
  if (json) printJson(run);
  if (run.status.state !== RUN_STATES.completed) process.exitCode = 1;
}

function parseInput(text: string): object {
  try {
    const value: unknown = JSON.parse(text);
    if (isRecord(value)) return value;
  } catch {
    // reported below
  }
  throw new UsageError('--input is not a JSON object: use one such as \'{"user": {"external_id": "42"}}\'');
}

/** Polls a run until it has ended, and prints its steps as they change. */
async function followRun(
  target: Target,
  id: string,
  { timeoutMs, quiet }: { timeoutMs: number; quiet: boolean },
): Promise<Run> {
  const deadline = performance.now() + timeoutMs;
  const printed = new Map<string, string>();
  for (let pauseMs = FIRST_POLL_MS; ; pauseMs = Math.min(pauseMs * 1.5, LONGEST_POLL_MS)) {
    const run = await readRun(target, id);
    const { state, error } = run.status;
    for (const step of quiet ? [] : run.steps) {
      if (printed.get(step.place) === step.state) continue;
      printed.set(step.place, step.state);
      print(`step ${step.place}  ${plain(step.command)}  ${step.state}`);
    }
    if (state >= RUN_STATES.completed) {
      if (!quiet) print(`${stateName(state)}${error === undefined ? '' : `: ${plain(error)}`}`);
      return run;
    }
    if (performance.now() + pauseMs > deadline) {
      throw new CommandError(
        `run ${id} is still ${stateName(state)} after ${timeoutMs / 1000} s, and continues: ` +
          'wait longer with --timeout 10m',
      );
    }
    await sleep(pauseMs);
  }
}

import { abort } from './abort.ts';
import { broadcast } from './broadcast.ts';
import type { Command } from './command.ts';
import { digest } from './digest.ts';
import { http } from './http.ts';
import { pause } from './pause.ts';
import { set } from './set.ts';
import { throttle } from './throttle.ts';
import { updateUserOfRun } from './update-user.ts';
import { wait } from './wait.ts';
import { waitFor } from './wait-for.ts';

/** The commands of steps. `branch` is part of the engine. */
export const COMMANDS: ReadonlyMap<string, Command> = new Map<string, Command>([
  ['broadcast', broadcast],
  ['wait', wait],
  ['wait_for', waitFor],
  ['pause', pause],
  ['abort', abort],
  ['set', set],
  ['update_user', updateUserOfRun],
  ['http', http],
  ['digest', digest],
  ['throttle', throttle],
]);

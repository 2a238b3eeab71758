import { renewCredentials } from '../credentials.ts';
import type { Opened } from '../open.ts';

/**
 * Renews credentials.json after a change of the project's keys or tokens. A file that cannot be written does
 * not undo what was `done`, whose result is still to be printed.
 */
export async function renewFile(
  context: Opened,
  projectId: string,
  done: string,
): Promise<{ renewed: boolean; problem?: string }> {
  try {
    return { renewed: await renewCredentials(context, projectId) };
  } catch (error) {
    const problem =
      `${done}, but credentials.json could not be written (${(error as Error).message}): ` +
      'the next start of the server renews it';
    return { renewed: false, problem };
  }
}

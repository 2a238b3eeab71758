import type { SaveUser } from '../../../contract/user.ts';
import { updateUser } from '../../people/users/update.ts';
import type { Command } from './command.ts';

/** Changes the user of the run. */
export const updateUserOfRun: Command<SaveUser> = {
  acts: true,
  async begin(context, { projectId, runId, user: of, input }) {
    if (of === null) return { kind: 'fail', error: 'the run has no user' };
    const user = await updateUser({ ...context, cause: { run_id: runId } }, projectId, of.id, input);
    return user === undefined
      ? { kind: 'fail', error: 'the user was deleted' }
      : { kind: 'done', changedUser: true };
  },
};

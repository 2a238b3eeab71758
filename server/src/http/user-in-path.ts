import { findUser } from '../domain/people/users/find.ts';
import { found } from './found.ts';
import type { Call } from './route.ts';

/** Returns the user in the path of a request with a Project JWT. Throws `not_found` if there is none. */
export async function userInPath({
  project,
  params,
  context,
}: Pick<Call<{ user_id: string }, unknown, unknown>, 'params' | 'context'> & {
  project: { id: string };
}): Promise<{ projectId: string; userId: string }> {
  return { projectId: project.id, userId: found(await findUser(context.db, project.id, params.user_id)) };
}

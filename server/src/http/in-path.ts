import { isTopic } from '../contract/topic.ts';
import { findUser } from '../domain/people/users/find.ts';
import { ClientError } from '../errors.ts';
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

/** Returns the topic in the path of a request that saves it. Throws `validation_failed` if it is none. */
export function topicInPath({ topic }: { topic: string }): string {
  if (isTopic(topic)) return topic;
  throw new ClientError('validation_failed', [
    "Param 'topic' must have 1 to 255 characters, each a letter, a digit or one of _ . - : /",
  ]);
}

/** Returns the version in a path. Throws `not_found` if it is no number that a version can have. */
export function versionIn({ version }: { version: string }): number {
  if (!/^[1-9]\d{0,8}$/.test(version)) throw new ClientError('not_found');
  return Number(version);
}

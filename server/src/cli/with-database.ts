import { type ConnectionSettings, type Database, openDatabase } from '../db/client.ts';
import { StartError } from '../db/embedded/start-error.ts';
import { connectionObstacle, obstacleOf } from '../db/usability.ts';
import { CommandError } from './command.ts';

/** Describes why the database cannot be used, with the remedy. */
export function unavailable(error: unknown): CommandError {
  const { message, advice } = obstacleOf(error);
  return new CommandError(`the database ${message}: ${advice}`);
}

/** Runs `work` on a database. Failures of the database become a `StartError`, which calls it `what`. */
export async function withDatabase<Result>(
  connection: ConnectionSettings,
  what: string,
  work: (db: Database) => Promise<Result>,
): Promise<Result> {
  const db = openDatabase(connection, { size: 1, name: 'belfry cell' });
  try {
    return await work(db);
  } catch (error) {
    if (error instanceof CommandError) throw error;
    const { message, advice } = connectionObstacle(error);
    throw new StartError(`the database of ${what} ${message}: ${advice}`, { cause: error });
  } finally {
    await db.close();
  }
}

// Stands for a Belfry process: starts the database as the JSON argument says, tells each event as a line of
// JSON.
import { startEmbedded } from '../../src/db/embedded.ts';

const say = (event: object): void => void process.stdout.write(`${JSON.stringify(event)}\n`);
try {
  const database = await startEmbedded({
    ...JSON.parse(process.argv[2] ?? '{}'),
    log: (log) => say({ log }),
    onLost: ({ message }) => say({ lost: message }),
  });
  const { pid, adopted, connection } = database;
  process.once('SIGTERM', () => void database.stop());
  say({ ready: { pid, adopted, connection } });
} catch (error) {
  say({ error: error instanceof Error ? error.message : String(error) });
  process.exitCode = 1;
}

// Starts the database with the options in its JSON argument, as Belfry does. Prints each event as a line of
// JSON.
import { startEmbedded } from '../../src/db/embedded.ts';

const print = (event: object): void => void process.stdout.write(`${JSON.stringify(event)}\n`);
try {
  const database = await startEmbedded({
    ...JSON.parse(process.argv[2] ?? '{}'),
    log: (log) => print({ log }),
    onLost: ({ message }) => print({ lost: message }),
  });
  const { pid, adopted, connection } = database;
  process.once('SIGTERM', () => void database.stop());
  print({ ready: { pid, adopted, connection } });
} catch (error) {
  print({ error: error instanceof Error ? error.message : String(error) });
  process.exitCode = 1;
}

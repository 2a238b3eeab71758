import { readConfig } from '../config.ts';
import { createLogger } from '../lib/log.ts';
import { type Opened, open } from '../open.ts';

/** Runs a command on an open database and closes it, whatever happens. Log lines go nowhere: a command's output is its answer. */
export async function withContext<Result>(work: (context: Opened) => Promise<Result>): Promise<Result> {
  const context = await open(readConfig(), { role: 'client', log: createLogger({ level: 'silent' }) });
  try {
    return await work(context);
  } finally {
    await context.close();
  }
}

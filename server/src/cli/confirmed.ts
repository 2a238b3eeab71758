import { createInterface } from 'node:readline/promises';
import { UsageError } from './command.ts';

/** Asks a question in the terminal, and returns whether the response is yes. */
export async function confirmed(question: string): Promise<boolean> {
  if (!process.stdin.isTTY)
    throw new UsageError('standard input is not a terminal: use --yes to write without a question');
  const terminal = createInterface({ input: process.stdin, output: process.stderr });
  const closed = new AbortController();
  terminal.once('close', () => closed.abort());
  try {
    const typed = await terminal.question(`${question} [y/N] `, { signal: closed.signal });
    return /^y(es)?$/i.test(typed.trim());
  } catch (error) {
    if (closed.signal.aborted) return false; // Ctrl-C or Ctrl-D
    throw error;
  } finally {
    terminal.close();
  }
}

import type { Progressed } from '../db/backup.ts';

const SHOW_EVERY_MS = 100;
const LINE_EVERY_MS = 10_000;

/**
 * The progress of a long command on standard error: a changing line on a terminal, else a line every 10 s.
 */
export interface Progress {
  show(text: string): void;
  end(): void;
}

/** Starts to show progress, at limited intervals. */
export function progress(): Progress {
  const stream = process.stderr;
  const everyMs = stream.isTTY ? SHOW_EVERY_MS : LINE_EVERY_MS;
  let shownAt = stream.isTTY ? Number.NEGATIVE_INFINITY : performance.now();
  let open = false;
  return {
    show(text) {
      const now = performance.now();
      if (now - shownAt < everyMs) return;
      shownAt = now;
      if (!stream.isTTY) {
        stream.write(`${text}\n`);
        return;
      }
      open = true;
      stream.write(`\r\u001b[K${text.slice(0, (stream.columns || 80) - 1)}`);
    },
    end() {
      if (open) stream.write('\r\u001b[K');
      open = false;
    },
  };
}

/** Describes the progress of a backup or a restore. */
export function movedText({ table, at, of, bytes }: Progressed): string {
  return `${table} (table ${at} of ${of}), ${(bytes / 1e6).toFixed(1)} MB`;
}

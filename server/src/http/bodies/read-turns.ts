import type { Readable } from 'node:stream';

/**
 * Receives large bodies in turns. Otherwise a hundred that arrive together would be read in one turn of the
 * event loop, two megabytes of each, and all other requests would wait.
 */
export class ReadTurns {
  readonly #bytesPerTurn: number;
  readonly #pauseMs: number;
  readonly #paused: Readable[] = [];
  #bytes = 0;
  #scheduled = false;

  /** A turn reads about `bytesPerTurn`. Between two turns the event loop runs once, or for `pauseMs`. */
  constructor({ bytesPerTurn, pauseMs = 0 }: { bytesPerTurn: number; pauseMs?: number }) {
    this.#bytesPerTurn = bytesPerTurn;
    this.#pauseMs = pauseMs;
  }

  /** Call this for each chunk. Pauses the stream until a later turn if this one has read enough. */
  onChunk(stream: Readable, bytes: number): void {
    this.#bytes += bytes;
    if (this.#bytes > this.#bytesPerTurn) {
      stream.pause();
      this.#paused.push(stream);
    }
    this.#schedule();
  }

  #schedule(): void {
    if (this.#scheduled) return;
    this.#scheduled = true;
    if (this.#pauseMs > 0) setTimeout(() => this.#next(), this.#pauseMs);
    else setImmediate(() => this.#next());
  }

  #next(): void {
    this.#scheduled = false;
    this.#bytes = 0;
    const resumed = Math.ceil(this.#bytesPerTurn / CHUNK_BYTES);
    for (const stream of this.#paused.splice(0, resumed)) stream.resume();
    if (this.#paused.length > 0) this.#schedule();
  }
}

// The bytes that Node reads from a socket before the stream can be paused.
const CHUNK_BYTES = 64 * 1024;

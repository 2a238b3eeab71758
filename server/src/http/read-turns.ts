import type { Readable } from 'node:stream';

/**
 * Lets large bodies be received in turns. A hundred of them that arrive together would else be read within
 * one turn of the event loop, two megabytes of each, and every other request would wait.
 */
export class ReadTurns {
  readonly #bytesPerTurn: number;
  readonly #pauseMs: number;
  readonly #paused: Readable[] = [];
  #bytes = 0;
  #scheduled = false;

  /**
   * Reads `bytesPerTurn`, about; between two turns the event loop goes round once, or goes on for `pauseMs`.
   */
  constructor({ bytesPerTurn, pauseMs = 0 }: { bytesPerTurn: number; pauseMs?: number }) {
    this.#bytesPerTurn = bytesPerTurn;
    this.#pauseMs = pauseMs;
  }

  /**
   * To be called for each chunk: pauses the stream until it is its turn, if enough has been read in this one.
   */
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

// What Node reads of a socket before the stream can be paused.
const CHUNK_BYTES = 64 * 1024;

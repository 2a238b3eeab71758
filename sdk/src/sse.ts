/** A block of an event stream, which the HTML standard dispatches as an event. */
export interface StreamBlock {
  /** The name of the event; `message` if it has none. */
  event: string;
  /** `undefined` if the block has only an id or a time to wait. */
  data: string | undefined;
  /** The last id in this block or before. */
  lastEventId: string;
}

/** Parses Server-Sent Events (HTML standard, 9.2.6) from text that arrives in pieces. */
export class StreamParser {
  /** The time that clients wait before they reconnect, from the server. */
  retryMs: number | undefined;
  #lastEventId: string;
  #rest = '';
  #isFirst = true;
  #data: string[] = [];
  #event = '';
  #touched = false;

  constructor(lastEventId: string) {
    this.#lastEventId = lastEventId;
  }

  /** Returns the blocks that this piece completes. */
  push(piece: string): StreamBlock[] {
    if (piece === '') return [];
    const text = this.#rest + (this.#isFirst ? piece.replace(/^\uFEFF/, '') : piece);
    this.#isFirst = false;
    // A CR at the end may be the first half of a line break, so it stays for the next piece.
    const lines = text.split(/\r\n|\n|\r(?!$)/);
    this.#rest = lines.pop() ?? '';
    return lines.flatMap((line) => this.#line(line) ?? []);
  }

  #line(line: string): StreamBlock | undefined {
    if (line === '') return this.#dispatch();
    const colon = line.indexOf(':');
    const name = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? '' : line.slice(colon + 1).replace(/^ /, '');
    if (name === 'data') this.#data.push(value);
    else if (name === 'event') this.#event = value;
    else if (name === 'id' && !value.includes('\0')) this.#lastEventId = value;
    else if (name === 'retry' && /^\d+$/.test(value)) this.retryMs = Number(value);
    else return undefined;
    this.#touched = true;
    return undefined;
  }

  #dispatch(): StreamBlock | undefined {
    if (!this.#touched) return undefined;
    const block = {
      event: this.#event === '' ? 'message' : this.#event,
      data: this.#data.length === 0 ? undefined : this.#data.join('\n'),
      lastEventId: this.#lastEventId,
    };
    this.#data = [];
    this.#event = '';
    this.#touched = false;
    return block;
  }
}

const BIND = 'B';
const PARSE = 'P';
const QUERY = 'Q';

/**
 * Names the statements that a client of PostgreSQL sends over one connection, as its bytes pass by: those
 * with a name by it, the others by the beginning of their text. The end of a transaction has also the name of
 * the statement before it ("commit after enqueue").
 */
export class SentStatements {
  #rest: Buffer = Buffer.alloc(0);
  #hasStarted = false;
  #unnamed = '';
  /** The last one that was sent, to which the next reply belongs. */
  last = '';

  /** The statements that are complete with these bytes. */
  add(bytes: Buffer): string[] {
    const found: string[] = [];
    let rest = Buffer.concat([this.#rest, bytes]);
    for (;;) {
      // The first message of a connection has no type.
      const start = this.#hasStarted ? 1 : 0;
      if (rest.length < start + 4) break;
      const end = start + rest.readUInt32BE(start);
      if (rest.length < end) break;
      const type = this.#hasStarted ? String.fromCharCode(rest[0] as number) : '';
      const name = this.#nameOf(type, rest.subarray(start + 4, end));
      if (name !== undefined) {
        found.push(name);
        this.last = name;
      }
      this.#hasStarted = true;
      rest = rest.subarray(end);
    }
    this.#rest = rest;
    return found;
  }

  #nameOf(type: string, body: Buffer): string | undefined {
    const [first = '', second = ''] = body.toString('latin1').split('\0', 2);
    if (type === PARSE && first === '') this.#unnamed = second;
    if (type === QUERY) return this.#short(first);
    if (type === BIND) return second === '' ? this.#short(this.#unnamed) : second;
    return undefined;
  }

  #short(text: string): string {
    const start = text.slice(0, 40);
    return start === 'commit' ? `commit after ${this.last}` : start;
  }
}

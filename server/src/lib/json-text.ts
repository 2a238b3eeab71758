/** JSON text. Long texts are bytes, which need no heap and no conversion for the database and responses. */
export type JsonText = string | JsonBytes;

/** JSON text in UTF-8. Its parts are not joined: copying 30 MB blocks the event loop for 20 ms and more. */
export class JsonBytes {
  readonly parts: readonly Buffer[];
  /** In bytes. */
  readonly length: number;

  constructor(parts: readonly Buffer[]) {
    this.parts = parts;
    this.length = parts.reduce((length, part) => length + part.length, 0);
  }

  /** The members of an object, without its braces. */
  withoutBraces(): JsonBytes {
    const parts = [...this.parts];
    parts[0] = (parts[0] as Buffer).subarray(1);
    parts.push((parts.pop() as Buffer).subarray(0, -1));
    return new JsonBytes(parts);
  }

  /** Copies the text, unless it has one part. */
  toBuffer(): Buffer {
    const [first] = this.parts;
    return first !== undefined && this.parts.length === 1 ? first : Buffer.concat(this.parts, this.length);
  }

  toString(): string {
    return this.toBuffer().toString();
  }
}

/** Concatenates JSON texts. */
export function joinTexts(texts: readonly JsonText[]): JsonText {
  if (texts.every((text) => typeof text === 'string')) return texts.join('');
  return new JsonBytes(texts.flatMap((text) => (typeof text === 'string' ? Buffer.from(text) : text.parts)));
}

import { createHash } from 'node:crypto';

/**
 * A piece of a backup: a letter for its kind, and its bytes. The file is the gzip of all of them, one after
 * the other.
 */
export interface Frame {
  readonly kind: 'header' | 'table' | 'rows' | 'table end' | 'end';
  readonly payload: Buffer;
}

/** What a backup is of; the first frame. */
export interface Header {
  readonly format: 'belfry-backup';
  readonly version: 1;
  /** The last migration of the database it was made from. */
  readonly schema: number;
  readonly postgres: string;
  readonly made_at: string;
  /** In an order in which foreign keys always find what they name. */
  readonly tables: readonly TableOf[];
}

export interface TableOf {
  readonly name: string;
  readonly columns: readonly string[];
}

/** The last frame: what must be there, so that a cut or altered file is noticed. */
export interface Trailer {
  /** Where number sequences go on; `null` where they have not begun. */
  readonly sequences: Readonly<Record<string, string | null>>;
  /** Of all frames before this one, as they stand in the file before compression. */
  readonly sha256: string;
}

const KINDS = { H: 'header', T: 'table', D: 'rows', E: 'table end', Z: 'end' } as const;
const LETTERS = { header: 'H', table: 'T', rows: 'D', 'table end': 'E', end: 'Z' } as const;
const HEAD_BYTES = 5; // the letter and the length
const MOST_BYTES = 1 << 20; // of rows in one frame, so that a reader needs little memory
const LIMIT_BYTES = 1 << 26; // a length above this can only be damage

/** The sum over all frames but the end, which tells it; both sides count it up. */
export function createSum(): { add(frame: Frame): void; hex(): string } {
  const hash = createHash('sha256');
  return {
    add(frame) {
      if (frame.kind !== 'end') hash.update(headOf(frame)).update(frame.payload);
    },
    hex: () => hash.digest('hex'),
  };
}

/** A frame of JSON. */
export function jsonFrame(kind: Frame['kind'], value: unknown): Frame {
  return { kind, payload: Buffer.from(JSON.stringify(value)) };
}

/** Rows as frames of bounded size; where the bytes are cut does not matter. */
export function* rowFrames(bytes: Buffer): Generator<Frame> {
  for (let at = 0; at < bytes.length; at += MOST_BYTES) {
    yield { kind: 'rows', payload: bytes.subarray(at, at + MOST_BYTES) };
  }
}

/** The bytes of a frame in the file. */
export function encodeFrame(frame: Frame): Buffer {
  return Buffer.concat([headOf(frame), frame.payload]);
}

/** Reads frames from the uncompressed bytes of a file; `damaged` makes the error for bytes that are none. */
export async function* decodeFrames(
  source: AsyncIterable<Buffer>,
  damaged: () => Error,
): AsyncGenerator<Frame> {
  let parts: Buffer[] = [];
  let held = 0;
  let needed = HEAD_BYTES;
  for await (const chunk of source) {
    parts.push(chunk);
    held += chunk.length;
    if (held < needed) continue; // collected, and joined once: a frame of many chunks is copied only once
    let bytes = Buffer.concat(parts);
    for (;;) {
      needed = bytes.length < HEAD_BYTES ? HEAD_BYTES : HEAD_BYTES + lengthOf(bytes, damaged);
      if (bytes.length < needed) break;
      yield { kind: kindOf(bytes, damaged), payload: bytes.subarray(HEAD_BYTES, needed) };
      bytes = bytes.subarray(needed);
    }
    parts = [bytes];
    held = bytes.length;
  }
  if (held > 0) throw damaged();
}

function headOf({ kind, payload }: Frame): Buffer {
  const head = Buffer.alloc(HEAD_BYTES);
  head.write(LETTERS[kind], 'latin1');
  head.writeUInt32BE(payload.length, 1);
  return head;
}

function lengthOf(bytes: Buffer, damaged: () => Error): number {
  const length = bytes.readUInt32BE(1);
  if (length > LIMIT_BYTES) throw damaged();
  return length;
}

function kindOf(bytes: Buffer, damaged: () => Error): Frame['kind'] {
  const letter = bytes.toString('latin1', 0, 1);
  if (Object.hasOwn(KINDS, letter)) return KINDS[letter as keyof typeof KINDS];
  throw damaged();
}

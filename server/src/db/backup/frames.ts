import { createHash } from 'node:crypto';

/** A part of a backup: a letter for its kind, and its bytes. The file is the gzip of all frames. */
export interface Frame {
  readonly kind: 'header' | 'table' | 'rows' | 'table end' | 'end';
  readonly payload: Buffer;
}

/** The first frame, which describes the backup. */
export interface Header {
  readonly format: 'belfry-backup';
  readonly version: 1;
  /** The schema version of the database. */
  readonly schema: number;
  readonly postgres: string;
  readonly made_at: string;
  /** In an order that satisfies the foreign keys. */
  readonly tables: readonly TableOf[];
}

export interface TableOf {
  readonly name: string;
  readonly columns: readonly string[];
}

/** The last frame, by which a truncated or changed file is detected. */
export interface Trailer {
  /** The positions of sequences; `null` for unused ones. */
  readonly sequences: Readonly<Record<string, string | null>>;
  /** Of all frames before this one, uncompressed. */
  readonly sha256: string;
}

const KINDS = { H: 'header', T: 'table', D: 'rows', E: 'table end', Z: 'end' } as const;
const LETTERS = { header: 'H', table: 'T', rows: 'D', 'table end': 'E', end: 'Z' } as const;
const HEAD_BYTES = 5; // the letter and the length
const MAX_BYTES = 1 << 20; // of rows in one frame, so that a reader needs little memory
const LIMIT_BYTES = 1 << 26; // a greater length can only be damage

/** The checksum of all frames except the end, which contains it. */
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

/** Rows as frames of limited size, cut anywhere. */
export function* rowFrames(bytes: Buffer): Generator<Frame> {
  for (let at = 0; at < bytes.length; at += MAX_BYTES) {
    yield { kind: 'rows', payload: bytes.subarray(at, at + MAX_BYTES) };
  }
}

/** The bytes of a frame in the file. */
export function encodeFrame(frame: Frame): Buffer {
  return Buffer.concat([headOf(frame), frame.payload]);
}

/** Reads frames from uncompressed bytes. Throws the error of `damaged` for invalid ones. */
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
    if (held < needed) continue; // so that a frame of many chunks is copied only once
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

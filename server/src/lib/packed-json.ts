import { StringDecoder } from 'node:string_decoder';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { createDeflateRaw, createInflateRaw, deflateRawSync, inflateRawSync } from 'node:zlib';
import { JsonBytes, type JsonText } from './json-text.ts';
import { Limiter } from './limiter.ts';

// Below a kilobyte, deflating takes more time than its savings are worth.
const DEFLATE_FROM_BYTES = 1024;
// Level 1: 0.17 ms for 150 kB. It saves nearly as much as level 6 on recipients (within a tenth).
const LEVEL = 1;
// From this size on, passing the text to another thread blocks this one far less than deflating would.
const IN_THREAD_FROM_BYTES = 32_768;
// The other thread returns as much at a time.
const CHUNK_BYTES = 64 * 1024;
const PARTS_PER_TURN = 32;
const PLAIN = 0;
const DEFLATED = 1;
const AS_PLAIN = Buffer.of(PLAIN);
const AS_DEFLATED = Buffer.of(DEFLATED);

/**
 * Packs JSON text for a `bytea` column: one byte for the format, then the text, deflated if that pays off.
 */
export function packJson(json: string | Buffer): Buffer {
  const text = typeof json === 'string' ? Buffer.from(json) : json;
  return text.length < DEFLATE_FROM_BYTES
    ? Buffer.concat([AS_PLAIN, text])
    : Buffer.concat([AS_DEFLATED, deflateRawSync(text, { level: LEVEL })]);
}

/** Packs like `packJson`, but deflates long text in another thread. */
export async function packJsonInThread(json: JsonText): Promise<Buffer> {
  if (json.length < IN_THREAD_FROM_BYTES) return packJson(typeof json === 'string' ? json : json.toBuffer());
  const deflater = createDeflateRaw({ level: LEVEL, chunkSize: CHUNK_BYTES });
  for (const part of typeof json === 'string' ? [json] : json.parts) deflater.write(part);
  deflater.end();
  return joinInTurns([AS_DEFLATED, ...(await deflater.toArray())]);
}

/** Joins buffers in several turns of the event loop: 20 MB of new memory take the kernel 30 ms. */
async function joinInTurns(parts: readonly Buffer[]): Promise<Buffer> {
  const joined = Buffer.allocUnsafe(parts.reduce((bytes, part) => bytes + part.length, 0));
  let at = 0;
  for (const [index, part] of parts.entries()) {
    at += part.copy(joined, at);
    if (index % PARTS_PER_TURN === PARTS_PER_TURN - 1) await nextTurn();
  }
  return joined;
}

/** Unpacks the parts of packed JSON, and inflates text that may be long in another thread, to bytes. */
export async function unpackJsonInThread(packed: readonly Buffer[]): Promise<JsonText> {
  const bytes = packed.reduce((sum, part) => sum + part.length, 0);
  const [first, ...rest] = packed;
  if (first === undefined || bytes < MAY_BE_LONG_FROM_BYTES) return unpackJson(Buffer.concat(packed));
  const inflater = createInflateRaw({ chunkSize: CHUNK_BYTES });
  for (const part of [first.subarray(1), ...rest]) inflater.write(part);
  inflater.end();
  return new JsonBytes(await inflated(inflater));
}

// The threads do no more than this at once. All others would grow together, and hundreds of them that were
// read at the same time would fill the memory before the first one ends.
const longOnes = new Limiter({ maxCount: 4, maxWeight: Number.POSITIVE_INFINITY });
const LONG_FROM_BYTES = 256 * 1024;

/** Reads all parts. After the first ones of a long text, it waits for its turn. */
async function inflated(inflater: AsyncIterable<Buffer>): Promise<Buffer[]> {
  const parts: Buffer[] = [];
  let bytes = 0;
  let hasTurn = false;
  try {
    for await (const part of inflater) {
      parts.push(part);
      bytes += part.length;
      if (!hasTurn && bytes > LONG_FROM_BYTES) hasTurn = await longOnes.acquire(1);
    }
  } finally {
    if (hasTurn) longOnes.release(1);
  }
  return parts;
}

/** Unpacks the parts of packed JSON to a string: long text in several turns of the event loop. */
export async function unpackJsonInTurns(packed: readonly Buffer[]): Promise<string> {
  return stringInTurns(await unpackJsonInThread(packed));
}

/** Returns JSON text as a string: bytes are decoded in several turns of the event loop. */
export async function stringInTurns(json: JsonText): Promise<string> {
  if (typeof json === 'string') return json;
  const decoder = new StringDecoder();
  let text = '';
  for (const [index, part] of json.parts.entries()) {
    text += decoder.write(part);
    if (index % PARTS_PER_TURN === PARTS_PER_TURN - 1) await nextTurn();
  }
  return text + decoder.end();
}

// Deflating shrinks a text at most a thousandfold, and 8 MiB inflate in 8 ms.
const MAY_BE_LONG_FROM_BYTES = 8 * 1024;

/** Returns the JSON text that was packed. */
export function unpackJson(packed: Buffer): string {
  if (packed[0] === PLAIN) return packed.toString('utf8', 1);
  if (packed[0] === DEFLATED) return inflateRawSync(packed.subarray(1)).toString('utf8');
  throw new Error(`packed JSON of unknown form ${packed[0]}`);
}

/** Returns the JSON text that was packed, or undefined if it has more bytes: then it is not inflated. */
export function unpackShortJson(packed: Buffer, maxBytes: number): string | undefined {
  if (packed[0] !== DEFLATED) return packed.length - 1 > maxBytes ? undefined : unpackJson(packed);
  try {
    return inflateRawSync(packed.subarray(1), { maxOutputLength: maxBytes }).toString('utf8');
  } catch (error) {
    if ((error as { code?: unknown }).code === 'ERR_BUFFER_TOO_LARGE') return undefined;
    throw error;
  }
}

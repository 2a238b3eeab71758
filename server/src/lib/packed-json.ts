import { promisify } from 'node:util';
import { deflateRaw, deflateRawSync, inflateRaw, inflateRawSync } from 'node:zlib';
import type { JsonText } from './json-text.ts';

// Below a kilobyte deflating costs more time than the bytes it saves are worth.
const DEFLATE_FROM_BYTES = 1024;
// Level 1: 0.17 ms for 150 kB, and within a tenth of what level 6 saves on recipients.
const LEVEL = 1;
// From here on handing it to another thread takes this one far less time than deflating would.
const ELSEWHERE_FROM_BYTES = 32_768;
const PLAIN = 0;
const DEFLATED = 1;
const AS_PLAIN = Buffer.of(PLAIN);
const AS_DEFLATED = Buffer.of(DEFLATED);

/**
 * JSON text as bytes for a `bytea` column: one byte that says how, then the text, deflated where that pays.
 */
export function packJson(json: string | Buffer): Buffer {
  const text = typeof json === 'string' ? Buffer.from(json) : json;
  return text.length < DEFLATE_FROM_BYTES
    ? Buffer.concat([AS_PLAIN, text])
    : Buffer.concat([AS_DEFLATED, deflateRawSync(text, { level: LEVEL })]);
}

/** The same, while this thread goes on with something else: long text is deflated by another. */
export async function packJsonElsewhere(json: string | Buffer): Promise<Buffer> {
  if (json.length < ELSEWHERE_FROM_BYTES) return packJson(json);
  return Buffer.concat([AS_DEFLATED, await deflate(json, { level: LEVEL })]);
}

const deflate = promisify<string | Buffer, { level: number }, Buffer>(deflateRaw);

/** The same, without blocking this thread: what may be long is inflated by another, and stays bytes. */
export async function unpackJsonElsewhere(packed: Buffer): Promise<JsonText> {
  if (packed[0] !== DEFLATED || packed.length < MAY_BE_LONG_FROM_BYTES) return unpackJson(packed);
  return inflate(packed.subarray(1));
}

const inflate = promisify<Buffer, Buffer>(inflateRaw);
// Deflating saves at most a factor of a thousand; 8 MiB are inflated in 8 ms.
const MAY_BE_LONG_FROM_BYTES = 8 * 1024;

/** The JSON text that was packed. */
export function unpackJson(packed: Buffer): string {
  if (packed[0] === PLAIN) return packed.toString('utf8', 1);
  if (packed[0] === DEFLATED) return inflateRawSync(packed.subarray(1)).toString('utf8');
  throw new Error(`packed JSON of unknown form ${packed[0]}`);
}

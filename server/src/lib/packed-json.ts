import { deflateRawSync, inflateRawSync } from 'node:zlib';

// Below a kilobyte deflating costs more time than the bytes it saves are worth.
const DEFLATE_FROM_BYTES = 1024;
// Level 1: 0.17 ms for 150 kB, and within a tenth of what level 6 saves on recipients.
const LEVEL = 1;
const PLAIN = 0;
const DEFLATED = 1;
const AS_PLAIN = Buffer.of(PLAIN);
const AS_DEFLATED = Buffer.of(DEFLATED);

/** JSON text as bytes for a `bytea` column: one byte that says how, then the text, deflated where that pays. */
export function packJson(json: string | Buffer): Buffer {
  const text = typeof json === 'string' ? Buffer.from(json) : json;
  return text.length < DEFLATE_FROM_BYTES
    ? Buffer.concat([AS_PLAIN, text])
    : Buffer.concat([AS_DEFLATED, deflateRawSync(text, { level: LEVEL })]);
}

/** The JSON text that `packJson` was given. */
export function unpackJson(packed: Buffer): string {
  if (packed[0] === PLAIN) return packed.toString('utf8', 1);
  if (packed[0] === DEFLATED) return inflateRawSync(packed.subarray(1)).toString('utf8');
  throw new Error(`packed JSON of unknown form ${packed[0]}`);
}

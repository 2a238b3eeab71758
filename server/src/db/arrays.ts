import { int32, LongValue } from './long-values.ts';

/**
 * PostgreSQL arrays for parameters with hundreds of elements. The driver would examine each element, which
 * for a list of ids takes longer than the rest of the statement.
 */

/** The text of a `uuid[]`. UUIDs need no quoting. */
export function uuidArray(ids: readonly string[]): string {
  return `{${ids.join(',')}}`;
}

/** The text of a `text[]`; null and undefined become null. */
export function textArray(values: readonly (string | null | undefined)[]): string {
  let text = '{';
  for (const value of values) {
    if (text.length > 1) text += ',';
    if (value === null || value === undefined) text += 'null';
    else text += SPECIAL.test(value) ? `"${value.replace(/["\\]/g, '\\$&')}"` : `"${value}"`;
  }
  return `${text}}`;
}

// The only special characters within quotes.
const SPECIAL = /["\\]/;

/**
 * A `bytea[]` in PostgreSQL's binary format, because its text has two digits for each byte. Long elements are
 * not copied.
 */
export function byteaArray(values: readonly (Buffer | null)[]): Buffer | LongValue {
  const header = [1, values.includes(null) ? 1 : 0, BYTEA, values.length, 1];
  const bytes = values.reduce((sum, value) => sum + LENGTH_BYTES + (value?.length ?? 0), HEADER_BYTES);
  if (bytes > LONG_BYTES) {
    const elements = values.flatMap((value) => (value === null ? int32(-1) : [int32(value.length), value]));
    return new LongValue([...header.map(int32), ...elements]);
  }
  const array = Buffer.allocUnsafe(bytes);
  let at = 0;
  for (const part of header) at = array.writeInt32BE(part, at);
  for (const value of values) {
    at = array.writeInt32BE(value?.length ?? -1, at);
    if (value !== null) at += value.copy(array, at);
  }
  return array;
}

// The number of dimensions, whether there are nulls, the element type, the length and the first index.
const HEADER_BYTES = 20;
const LONG_BYTES = 1024 * 1024;
const LENGTH_BYTES = 4;
const BYTEA = 17;

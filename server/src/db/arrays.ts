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

/** A `bytea[]` in PostgreSQL's binary format, because its text has two digits for each byte. */
export function byteaArray(values: readonly (Buffer | null)[]): Buffer {
  const array = Buffer.allocUnsafe(
    values.reduce((bytes, value) => bytes + LENGTH_BYTES + (value?.length ?? 0), HEADER_BYTES),
  );
  let at = 0;
  for (const part of [1, values.includes(null) ? 1 : 0, BYTEA, values.length, 1])
    at = array.writeInt32BE(part, at);
  for (const value of values) {
    at = array.writeInt32BE(value?.length ?? -1, at);
    if (value !== null) at += value.copy(array, at);
  }
  return array;
}

// The number of dimensions, whether there are nulls, the element type, the length and the first index.
const HEADER_BYTES = 20;
const LENGTH_BYTES = 4;
const BYTEA = 17;

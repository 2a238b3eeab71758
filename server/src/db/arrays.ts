/**
 * Lists as the text of a PostgreSQL array, for parameters of hundreds of elements: the driver asks each
 * element what it is, which for a list of ids takes longer than all else about the statement.
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

// Between quotes only these mean something else.
const SPECIAL = /["\\]/;

/**
 * A `bytea[]` in the database's binary format, which the driver sends as it is: as text each byte would be
 * two digits, to be written here and read there one by one.
 */
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

// One dimension, whether there are nulls, the type of the elements, how many, and the number of the first.
const HEADER_BYTES = 20;
const LENGTH_BYTES = 4;
const BYTEA = 17;

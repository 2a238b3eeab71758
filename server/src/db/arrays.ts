/**
 * Lists as the text of a PostgreSQL array, for parameters of hundreds of elements: the driver asks each element what it is, which
 * for a list of ids takes longer than all else about the statement.
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

/** Returns the value of JSON text; undefined if it is none. */
export function parse<Value>(data: unknown): Value | undefined {
  try {
    return JSON.parse(String(data)) as Value;
  } catch {
    return undefined;
  }
}

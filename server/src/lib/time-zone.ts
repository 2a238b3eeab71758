/** Whether a time zone exists, by its IANA name. */
export function isTimeZone(name: string): boolean {
  try {
    // Offsets such as `+02:00` are none: what is told of a person's evenings by one is wrong for half of the
    // year.
    return Intl.DateTimeFormat('en', { timeZone: name }) !== undefined && !OFFSET.test(name);
  } catch {
    return false;
  }
}

const OFFSET = /^[+-]/;

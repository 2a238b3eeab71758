/** Whether a time zone with this IANA name exists. */
export function isTimeZone(name: string): boolean {
  try {
    // Offsets such as `+02:00` are rejected: with daylight saving time they are wrong for half of the year.
    return Intl.DateTimeFormat('en', { timeZone: name }) !== undefined && !OFFSET.test(name);
  } catch {
    return false;
  }
}

const OFFSET = /^[+-]/;

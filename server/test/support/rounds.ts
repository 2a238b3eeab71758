/** The first value, or with `THOROUGH=1` the second, which takes longer. */
export function unlessThorough(short: number, long: number): number {
  return process.env.THOROUGH === '1' ? long : short;
}

/**
 * How often a test of random faults or requests repeats them: `FAULT_ROUNDS`, or the long run with
 * `THOROUGH=1`, or else the short one. Each run has another seed.
 */
export function rounds(short: number, long: number): number {
  return Number(process.env.FAULT_ROUNDS ?? unlessThorough(short, long));
}

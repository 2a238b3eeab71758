/** Random numbers from 0 to 1 (mulberry32). The same seed repeats them, and so a failed run. */
export function randomFrom(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** The seed of this run: `FAULT_SEED`, or a new one. */
export function newSeed(): number {
  return Number(process.env.FAULT_SEED ?? Math.floor(Math.random() * 2 ** 31));
}

/** The median; NaN without values. */
export function median(values: readonly number[]): number {
  return percentile(values, 50);
}

/** The value that `percent` of the values do not exceed; NaN without values. */
export function percentile(values: readonly number[], percent: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.max(0, Math.ceil((percent / 100) * sorted.length) - 1)] ?? Number.NaN;
}

import type { Config } from '../../config.ts';

/** Returns a time as v1 shows it: ISO 8601, or whole seconds since 1970. */
export function legacyTime<Time extends Date | string | null>(
  { LEGACY_TIMESTAMPS: format }: Pick<Config, 'LEGACY_TIMESTAMPS'>,
  time: Time,
): string | number | Extract<Time, null> {
  if (time === null) return time as Extract<Time, null>;
  const date = new Date(time);
  return format === 'unix' ? Math.floor(date.getTime() / 1000) : date.toISOString();
}

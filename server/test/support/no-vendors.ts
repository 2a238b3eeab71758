import { SETTINGS } from '../../src/config.ts';

/** Settings with which no test reaches a vendor: nothing listens there. */
export const noVendors: Record<string, string> = Object.fromEntries(
  Object.keys(SETTINGS)
    .filter((name) => name.startsWith('PROVIDER_'))
    .map((name) => [name, 'http://127.0.0.1:1']),
);

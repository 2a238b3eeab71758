import type { GoneToken } from './gone-token.ts';

// A wrong setting refuses every token. By chance ten different ones, with no success between, are all gone once in a blue moon.
const IN_A_ROW = 10;

/** Tokens that the provider says are gone, but would also say so if the config were wrong; by their ids. */
export type Suspects = Map<string, GoneToken>;

/**
 * Keeps a token aside until the integration has a success; each counts once, however often it is tried. Answers whether it is the config then:
 * too many in a row, of which none is to be discarded, and nothing is kept.
 */
export function keepAside(suspects: Suspects, gone: GoneToken): boolean {
  suspects.set(gone.tokenId, gone);
  if (suspects.size < IN_A_ROW) return false;
  suspects.clear();
  return true;
}

/** Those that really are gone, after a success has shown that the config is right. Nothing is kept then. */
export function takeConvicted(suspects: Suspects): GoneToken[] {
  const gone = [...suspects.values()];
  suspects.clear();
  return gone;
}

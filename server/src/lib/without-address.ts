const SPECIAL = /[\\^$.*+?()[\]{}|/-]/g;

/**
 * What a provider said, without the recipient's addresses in whatever case, numbers in whatever grouping, and
 * tokens: it is kept in events, which outlive the user, and the user's id stands beside it.
 */
export function withoutAddress(
  text: string,
  addresses: string | readonly string[] | null | undefined,
): string {
  let kept = text;
  // The longest first: one may be the end of another.
  const known = [addresses ?? []].flat().filter((address) => address.trim() !== '');
  for (const address of known.sort((a, b) => b.length - a.length))
    kept = kept.replace(patternOf(address.trim()), '[address]');
  return kept;
}

const NUMBER = /^\+[0-9][0-9 ().-]+$/;

/** Of a number the digits, however they are grouped; its sign may be left out, or written as in addresses. */
function patternOf(address: string): RegExp {
  if (!NUMBER.test(address)) return new RegExp(address.replace(SPECIAL, '\\$&'), 'gi');
  const digits = address.replace(/[^0-9]/g, '');
  return new RegExp(`(?:\\+|%2B|\\b)${[...digits].join('[ ().-]*')}(?![0-9])`, 'gi');
}

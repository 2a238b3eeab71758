const SPECIAL = /[\\^$.*+?()[\]{}|/-]/g;

/**
 * Returns a provider's text without the recipient's e-mail addresses (in any case), phone numbers (in any
 * grouping) and tokens. The text is stored in events, which outlive the user and carry the user's id.
 */
export function withoutAddress(
  text: string,
  addresses: string | readonly string[] | null | undefined,
): string {
  let kept = text;
  // The longest first, because one may contain another.
  const known = [addresses ?? []].flat().filter((address) => address.trim() !== '');
  for (const address of known.sort((a, b) => b.length - a.length))
    kept = kept.replace(patternOf(address.trim()), '[address]');
  return kept;
}

const NUMBER = /^\+[0-9][0-9 ().-]+$/;

/**
 * Returns a pattern for an address. A phone number matches with any grouping of its digits, and with a
 * missing or encoded plus sign.
 */
function patternOf(address: string): RegExp {
  if (!NUMBER.test(address)) return new RegExp(address.replace(SPECIAL, '\\$&'), 'gi');
  const digits = address.replace(/[^0-9]/g, '');
  return new RegExp(`(?:\\+|%2B|\\b)${[...digits].join('[ ().-]*')}(?![0-9])`, 'gi');
}

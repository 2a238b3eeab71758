/** RFC 5321, 4.5.3.1.3: a path has at most 256 octets, including its angle brackets. */
export const MAX_EMAIL_CHARACTERS = 254;

/**
 * Whether the text is an e-mail address: a plain local part and a domain, which may have no dot (intranet).
 * Accepts letters of all languages; no quoted local parts and no address literals.
 */
export function isEmailAddress(text: string): boolean {
  // RFC 5321, 4.5.3.1.1: 64 octets before the @. Long input is rejected before any pattern runs.
  if (text.length > MAX_EMAIL_CHARACTERS) return false;
  const at = text.indexOf('@'); // a third of the time of lastIndexOf; neither side may have another
  if (at < 1 || at > 64) return false;
  if (text.length - at <= MAX_LABEL_CHARACTERS && ASCII_ADDRESS.test(text)) return true;
  return (
    LOCAL_PART.test(text.slice(0, at)) &&
    text
      .slice(at + 1)
      .split('.')
      .every(isLabel)
  );
}

/** Returns a parsed value if it is an e-mail address. */
export function readEmail(value: unknown): string | undefined {
  return typeof value === 'string' && isEmailAddress(value) ? value : undefined;
}

const MAX_LABEL_CHARACTERS = 63;

// Matches nearly all addresses; a domain this short has no label that is too long. The Unicode rules take
// eight times as long, and a broadcast may have a thousand addresses.
const ASCII_ADDRESS =
  /^[\w!#$%&'*+\-./=?^`{|}~]+@[a-zA-Z\d]+(?:-+[a-zA-Z\d]+)*(?:\.[a-zA-Z\d]+(?:-+[a-zA-Z\d]+)*)*$/;

// Excludes the Kelvin sign, U+212A: in lower case it is an ASCII `k`, and so another person's address.
const LOCAL_PART = /^[^\s@"(),:;<>[\\\]\p{Cc}\p{Cs}\u212a]+$/u;

function isLabel(text: string): boolean {
  return (
    /^[\p{L}\p{N}\p{M}][\p{L}\p{N}\p{M}-]{0,62}$/u.test(text) &&
    !text.endsWith('-') &&
    !text.includes('\u212a')
  );
}

/** RFC 5321, 4.5.3.1.3: a path has 256 octets with its angle brackets. */
export const MAX_EMAIL_CHARACTERS = 254;

/**
 * Whether a mail could be sent there at all: a plain local part and a domain, which on an intranet may have
 * no dot. Letters of any language; no quoted local parts, no address literals.
 */
export function isEmailAddress(text: string): boolean {
  // RFC 5321, 4.5.3.1.1: 64 octets before the @. Long input is rejected before anything looks at it.
  if (text.length > MAX_EMAIL_CHARACTERS) return false;
  const at = text.lastIndexOf('@');
  if (at < 1 || at > 64) return false;
  if (ASCII_ADDRESS.test(text)) return true;
  return (
    LOCAL_PART.test(text.slice(0, at)) &&
    text
      .slice(at + 1)
      .split('.')
      .every(isLabel)
  );
}

// What nearly all addresses are. A broadcast has a thousand, and the rules for any language take five times
// as long.
const ASCII_ADDRESS =
  /^[\w!#$%&'*+\-./=?^`{|}~]+@[a-z\d](?:[a-z\d-]{0,61}[a-z\d])?(?:\.[a-z\d](?:[a-z\d-]{0,61}[a-z\d])?)*$/i;

// Nor the Kelvin sign, U+212A: in lower case it is an ASCII `k`, and so the address of somebody else.
const LOCAL_PART = /^[^\s@"(),:;<>[\\\]\p{Cc}\p{Cs}\u212a]+$/u;

function isLabel(text: string): boolean {
  return (
    /^[\p{L}\p{N}\p{M}][\p{L}\p{N}\p{M}-]{0,62}$/u.test(text) &&
    !text.endsWith('-') &&
    !text.includes('\u212a')
  );
}

/**
 * Whether a mail could be sent there at all: a plain local part and a domain, which on an intranet may have no dot. Letters of any
 * language; no quoted local parts, no address literals.
 */
export function isEmailAddress(text: string): boolean {
  // RFC 5321 4.5.3.1: 64 octets before the @, 254 characters in all. Long input is refused before anything looks at it.
  const at = text.lastIndexOf('@');
  if (at < 1 || at > 64 || text.length > 254) return false;
  return (
    LOCAL_PART.test(text.slice(0, at)) &&
    text
      .slice(at + 1)
      .split('.')
      .every(isLabel)
  );
}

const LOCAL_PART = /^[^\s@"(),:;<>[\\\]\p{Cc}\p{Cs}]+$/u;

function isLabel(text: string): boolean {
  return /^[\p{L}\p{N}\p{M}][\p{L}\p{N}\p{M}-]{0,62}$/u.test(text) && !text.endsWith('-');
}

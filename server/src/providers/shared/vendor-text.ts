/** Prepares a vendor's response for display to people. */

/** Parses a JSON object; returns an empty one if the text is not a JSON object. */
export function parseObject(text: string): object {
  if (text === '') return {}; // common, and an exception takes ten times as long
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null ? value : {};
  } catch {
    return {};
  }
}

/** Returns the vendor's error message: the value itself, the one below `error`, or the first of `errors`. */
export function errorMessageIn(value: unknown): string | undefined {
  if (typeof value === 'string') return value;
  if (typeof value !== 'object' || value === null) return undefined;
  const { error, errors, message, Message, error_description, reason } = value as Record<string, unknown>;
  const below = errorMessageIn(error) ?? errorMessageIn(Array.isArray(errors) ? errors[0] : undefined);
  const here = [message, Message, error_description, reason].find((one) => typeof one === 'string');
  const words = [below, here].filter((one) => one !== undefined);
  return words.length === 0 ? undefined : words.join(': ');
}

/**
 * Returns a vendor's text as one short line without line breaks and control characters, for storage and
 * display.
 */
export function tidy(text: string, length = 300): string {
  return text
    .slice(0, 1000)
    .replace(/[\p{Cc}\s]+/gu, ' ')
    .trim()
    .slice(0, length)
    .toWellFormed();
}

/**
 * Returns the text with the secrets replaced, both plain and in base64. Secrets under four characters are
 * kept, because they may be parts of words.
 */
export function withoutSecrets(text: string, secrets: readonly string[]): string {
  if (text === '') return text;
  return redactor(secrets)(text);
}

/** Returns `withoutSecrets` for many texts: the encoded forms of the secrets are computed once. */
export function redactor(secrets: readonly string[]): (text: string) => string {
  const forms = secrets
    .filter((secret) => secret.length >= 4)
    .flatMap((secret) => [secret, JSON.stringify(secret).slice(1, -1), ...inBase64(secret)])
    .sort((a, b) => b.length - a.length);
  return (text) => forms.reduce((left, form) => left.replaceAll(form, '••••••'), text);
}

/** Without padding, which is optional. */
function inBase64(secret: string): string[] {
  const bytes = Buffer.from(secret);
  return [bytes.toString('base64').replace(/=+$/, ''), bytes.toString('base64url')];
}

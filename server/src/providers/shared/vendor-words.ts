/** Makes the words of a vendor's response fit to be shown to people. */

/** The object that a JSON text is; an empty one where it is none. */
export function objectIn(text: string): object {
  if (text === '') return {}; // common, and an error thrown costs ten times the parsing
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null ? value : {};
  } catch {
    return {};
  }
}

/** What went wrong, in the vendor's words: a text of its own, one below `error`, or the first of `errors`. */
export function wordsIn(value: unknown): string | undefined {
  if (typeof value === 'string') return value;
  if (typeof value !== 'object' || value === null) return undefined;
  const { error, errors, message, Message, error_description, reason } = value as Record<string, unknown>;
  const below = wordsIn(error) ?? wordsIn(Array.isArray(errors) ? errors[0] : undefined);
  const here = [message, Message, error_description, reason].find((one) => typeof one === 'string');
  const words = [below, here].filter((one) => one !== undefined);
  return words.length === 0 ? undefined : words.join(': ');
}

/**
 * What a stranger's server says as one short line, without breaks, indentation and control characters: it is
 * shown to people and stored.
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
 * The text with secrets taken out, plain and as base64 carries them. Shorter ones than four characters are
 * parts of words.
 */
export function withoutSecrets(text: string, secrets: readonly string[]): string {
  if (text === '') return text;
  return hiderOf(secrets)(text);
}

/** `withoutSecrets` for many texts: the forms that a secret can have are made once. */
export function hiderOf(secrets: readonly string[]): (text: string) => string {
  const forms = secrets
    .filter((secret) => secret.length >= 4)
    .flatMap((secret) => [secret, JSON.stringify(secret).slice(1, -1), ...inBase64(secret)])
    .sort((a, b) => b.length - a.length);
  return (text) => forms.reduce((left, form) => left.replaceAll(form, '••••••'), text);
}

/** Without the padding, which may be left out. */
function inBase64(secret: string): string[] {
  const bytes = Buffer.from(secret);
  return [bytes.toString('base64').replace(/=+$/, ''), bytes.toString('base64url')];
}

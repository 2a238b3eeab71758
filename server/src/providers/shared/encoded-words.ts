/** Encoded words, by which headers of e-mails hold more than ASCII: https://www.rfc-editor.org/rfc/rfc2047 */

const WORD_BYTES = 45; // 60 characters of base64; a word may have 75 with its prefix and suffix

/** The text as encoded words, whatever is in it. */
export function encodedWords(text: string): string {
  const words: string[] = [];
  let word = '';
  for (const character of text.toWellFormed()) {
    if (Buffer.byteLength(word + character) > WORD_BYTES) {
      words.push(word);
      word = '';
    }
    word += character;
  }
  return [...words, word].map((one) => `=?UTF-8?B?${Buffer.from(one).toString('base64')}?=`).join(' ');
}

/**
 * Whether mail programs may take a part of the text for an encoded word, and show something else than was
 * written.
 */
export function looksEncoded(text: string): boolean {
  return text.includes('=?');
}

/**
 * The text for a vendor that encodes it by unknown rules, so that no part of it is taken for an encoded
 * word. Encoders leave plain ASCII as it is, which `=?utf-8?Q?fake?=` is; an invisible character (U+2060)
 * within has them encode it, and breaks the pattern.
 */
export function neverEncoded(text: string): string {
  return looksEncoded(text) ? text.replaceAll('=?', '=\u2060?') : text;
}

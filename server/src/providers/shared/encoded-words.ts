/** Encoded words, which carry non-ASCII text in e-mail headers: https://www.rfc-editor.org/rfc/rfc2047 */

const WORD_BYTES = 45; // 60 characters of base64; the limit is 75 with prefix and suffix

/** Returns the text as encoded words, separated by spaces. */
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

/** Whether a mail program may decode part of the text as an encoded word and show something else. */
export function looksEncoded(text: string): boolean {
  return text.includes('=?');
}

/**
 * Returns the text in a form that no mail program decodes as an encoded word, for vendors whose encoding
 * rules are unknown. Encoders leave plain ASCII such as `=?utf-8?Q?fake?=` unchanged; an invisible character
 * (U+2060) in it forces them to encode it and breaks the pattern.
 */
export function neverEncoded(text: string): string {
  return looksEncoded(text) ? text.replaceAll('=?', '=\u2060?') : text;
}

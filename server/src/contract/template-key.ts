import { Type } from 'typebox';

/** The characters of a template's key. */
const KEY_PATTERN = '^[A-Za-z0-9_.\\-:]+$';
const MAX_TEMPLATE_KEY_CHARACTERS = 255;
const KEY = new RegExp(KEY_PATTERN);

/** Whether a text can be the key of a template. */
export function isTemplateKey(text: string): boolean {
  return text.length <= MAX_TEMPLATE_KEY_CHARACTERS && KEY.test(text);
}

/** A text that names a template. */
export const TemplateKey = Type.String({
  minLength: 1,
  maxLength: MAX_TEMPLATE_KEY_CHARACTERS,
  pattern: KEY_PATTERN,
  examples: ['welcome'],
});

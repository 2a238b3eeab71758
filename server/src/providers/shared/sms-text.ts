import type { SmsMessage } from '../provider.ts';
import { cut } from './shrink.ts';

/**
 * Returns title, text and link on separate lines, in so many UTF-16 units. Cuts title and text only: a cut
 * link is useless. A link that is longer by itself is returned whole.
 */
export function smsText({ title, text, actionUrl }: SmsMessage, maxLength: number): string {
  const words = [title, text].map((part) => part.trim()).filter((part) => part !== '');
  if (actionUrl === null) return cut(words.join('\n'), maxLength);
  const shown = cut(words.join('\n'), maxLength - actionUrl.length - 1);
  return shown === '' ? actionUrl : `${shown}\n${actionUrl}`;
}

import { jsonMember } from './json-member.ts';

/**
 * The JSON of a member that is answered as it was given. Parsing bends numbers that are no safe integers: a
 * member that holds one is taken from the text that it was parsed from, in one line, and any other is written
 * anew, which does not take a look at the whole text.
 */
export function ownText(json: Buffer | undefined, name: string, value: unknown): string {
  const text = json !== undefined && isBent(value) ? jsonMember(json, name) : undefined;
  // Between the tokens alone: within strings JSON has no raw line ends.
  return text === undefined
    ? JSON.stringify(value)
    : text
        .toString()
        .replace(/[\t\n\r]/g, '')
        .trim();
}

/** Whether a number in a parsed value may differ from what was written. */
function isBent(value: unknown): boolean {
  if (typeof value === 'number') return !Number.isSafeInteger(value);
  if (typeof value !== 'object' || value === null) return false;
  for (const name in value) if (isBent((value as Record<string, unknown>)[name])) return true;
  return false;
}

import { Type } from 'typebox';

/**
 * The contract's pattern, as it is published. Its dot is not escaped, so any one character separates the
 * parts.
 */
const APP_ID = '^[a-zA-Z0-9]+(.[a-zA-Z0-9]+)*$';
/**
 * Matches the same texts; but as a separator cannot be a letter here, there is one way to match, not
 * exponentially many to fail.
 */
const APP_ID_LINEAR = '^[a-zA-Z0-9]+(?:[^a-zA-Z0-9\\n\\r\\u2028\\u2029][a-zA-Z0-9]+)*$';

/** Published patterns that are not matched as they stand, by the equivalents that are. */
export const LINEAR_EQUIVALENTS: ReadonlyMap<string, string> = new Map([[APP_ID, APP_ID_LINEAR]]);

/** The bundle identifier of an app, as Apple has it. */
export function appId(description: string) {
  return Type.String({ pattern: APP_ID, description, examples: ['com.example.app'] });
}

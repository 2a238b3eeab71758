import { isEmailAddress } from './email-address.ts';
import { readExternalId } from './external-id.ts';
import { isId } from './ids.ts';

/** How a client names a user in a path: `<uuid>`, `external_id:<id>` or `email:<address>`. */
export interface UserReference {
  kind: 'id' | 'external_id' | 'email';
  value: string;
}

/** Parses a reference. Returns undefined if the text is none. */
export function parseUserReference(text: string): UserReference | undefined {
  if (isId(text)) return { kind: 'id', value: text.toLowerCase() };
  const [, kind, value = ''] = /^(external_id|email):(.*)$/s.exec(text) ?? [];
  if (kind === 'email' && isEmailAddress(value)) return { kind, value };
  if (kind === 'external_id' && readExternalId(value) !== undefined) return { kind, value };
  return undefined;
}

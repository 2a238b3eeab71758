import type { UserRow } from '../../domain/people/users/get.ts';

/** What v1 shows of a user. */
type Recipient = Pick<
  UserRow,
  'id' | 'external_id' | 'email' | 'first_name' | 'last_name' | 'custom_attributes' | 'phone_numbers'
>;

/** The user as JSON text, with the custom attributes as they are stored. */
export function recipientJson(user: Recipient, more: readonly 'phone_numbers'[] = []): string {
  const { id, external_id, email, first_name, last_name } = user;
  const others = Object.fromEntries(more.map((name) => [name, user[name]]));
  const json = JSON.stringify({ id, external_id, email, first_name, last_name, ...others });
  return `${json.slice(0, -1)},"custom_attributes":${user.custom_attributes ?? '{}'}}`;
}

import type { Recipient } from '../../contract/broadcast.ts';
import { isEmailAddress } from '../../lib/email-address.ts';
import type { Person } from '../users/plan.ts';

/** A broadcast's recipients as people, and what is wrong with those that cannot be used. */
export interface ReadRecipients {
  people: Person[];
  /** Where each of `people` stands in the request. */
  positions: number[];
  /** How many recipients cannot be used at all. */
  unusable: number;
  errors: string[];
}

/**
 * Reads recipients. One that names nobody that can be reached is counted and told, and the others go on; an unusable address
 * beside an external id only costs the address. Pure.
 */
export function readRecipients(projectId: string, recipients: readonly Recipient[]): ReadRecipients {
  const read: ReadRecipients = { people: [], positions: [], unusable: 0, errors: [] };
  recipients.forEach((recipient, index) => {
    const email = recipient.email?.trim();
    const badAddress = email !== undefined && !isEmailAddress(email);
    if (badAddress) read.errors.push(`recipients.${index}: '${shorten(email)}' is not an e-mail address`);
    if (recipient.external_id == null && badAddress) {
      read.unusable += 1;
      return;
    }
    read.positions.push(index);
    read.people.push(personOf(projectId, recipient, badAddress ? undefined : email));
  });
  return read;
}

function personOf(projectId: string, recipient: Recipient, email: string | undefined): Person {
  const person: Person = { projectId };
  if (recipient.external_id != null) person.externalId = recipient.external_id;
  if (email !== undefined) person.email = email;
  if (recipient.first_name !== undefined) person.firstName = recipient.first_name;
  if (recipient.last_name !== undefined) person.lastName = recipient.last_name;
  if (recipient.custom_attributes !== undefined) {
    person.customAttributes =
      recipient.custom_attributes === null ? null : JSON.stringify(recipient.custom_attributes);
  }
  if (recipient.phone_numbers !== undefined) person.phoneNumbers = recipient.phone_numbers;
  return person;
}

function shorten(text: string): string {
  return text.length > 80 ? `${text.slice(0, 79)}…` : text;
}

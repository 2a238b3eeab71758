import { isSubscribers, type NamedRecipient, type Recipient } from '../../../contract/broadcast.ts';
import { itemsOf, memberOf } from '../../../lib/members.ts';
import { SUBSCRIBERS_PER_PAGE } from '../../people/topics/subscribers.ts';
import type { Person } from '../../people/users/plan.ts';

/** The recipients of a broadcast that name a user. */
export interface ReadRecipients {
  people: Person[];
  /** Where each of `people` stands in the request. */
  positions: number[];
}

/** Of what kind a broadcast's recipients are. */
export interface RecipientCount {
  /** Those that name a user. */
  named: number;
  /** The subscribers of the topic are among them, however many they are. */
  subscribers: boolean;
  /** So many users at most has the first page. */
  ofFirstPage: number;
}

export function countRecipients(recipients: readonly Recipient[]): RecipientCount {
  let named = 0;
  for (const recipient of recipients) if (!isSubscribers(recipient)) named += 1;
  const subscribers = named < recipients.length;
  return { named, subscribers, ofFirstPage: named === 0 && subscribers ? SUBSCRIBERS_PER_PAGE : named };
}

/**
 * What is wrong with a broadcast, of whatever shape, that is to go to the subscribers of a topic and has
 * none.
 */
export function topicProblems(sent: unknown): string[] {
  if (memberOf(sent, 'topic') != null) return [];
  const at = itemsOf(memberOf(sent, 'recipients')).findIndex(
    (one) => typeof one === 'object' && one !== null && 'topic' in one,
  );
  return at < 0 ? [] : [`Param 'topic' is missing: recipients.${at} are its subscribers`];
}

/**
 * Reads the recipients that name a user; their names were validated when the broadcast was accepted. Pure.
 */
export function readRecipients(projectId: string, recipients: readonly Recipient[]): ReadRecipients {
  const read: ReadRecipients = { people: [], positions: [] };
  recipients.forEach((recipient, index) => {
    if (isSubscribers(recipient)) return;
    read.positions.push(index);
    read.people.push(personOf(projectId, recipient));
  });
  return read;
}

function personOf(projectId: string, recipient: NamedRecipient): Person {
  const person: Person = { projectId };
  if (recipient.external_id != null) person.externalId = recipient.external_id;
  if (recipient.email != null) person.email = recipient.email;
  if (recipient.first_name !== undefined) person.firstName = recipient.first_name;
  if (recipient.last_name !== undefined) person.lastName = recipient.last_name;
  if (recipient.custom_attributes !== undefined) {
    person.customAttributes =
      recipient.custom_attributes === null ? null : JSON.stringify(recipient.custom_attributes);
  }
  if (recipient.phone_numbers !== undefined) person.phoneNumbers = recipient.phone_numbers;
  return person;
}

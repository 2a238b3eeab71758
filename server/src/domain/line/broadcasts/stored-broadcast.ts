import {
  groupOf,
  isNamed,
  type NamedRecipient,
  type NewBroadcast,
  type Recipient,
  type RecipientGroup,
} from '../../../contract/broadcast.ts';
import { writeJson } from '../../../lib/exact-numbers.ts';
import { timeOf } from '../../../lib/ids.ts';
import { JsonBytes, type JsonText, joinTexts } from '../../../lib/json-text.ts';
import { canonicalLocale } from '../../../lib/locale.ts';
import { packJsonInThread, unpackJsonInThread, unpackJsonInTurns } from '../../../lib/packed-json.ts';
import { USERS_PER_PAGE } from '../../people/users/next-users.ts';
import type { Person } from '../../people/users/plan.ts';

/** The JSON that a broadcast was parsed from. Its texts are stored as they came. */
export interface RawBroadcast {
  /** The text of the member `recipients`. */
  recipients?: Buffer | undefined;
  /** The texts of all members, for a long broadcast. */
  members?: ReadonlyMap<string, Buffer> | undefined;
}

/** The template of a broadcast, with the versions of all that it uses. Stored as JSON. */
export interface TemplateReference {
  key: string;
  version: number;
  data: Record<string, unknown> | null;
  uses: Readonly<Record<string, number>>;
}

/** The parts of a broadcast as JSON texts: one for each column that holds what was sent. */
export interface BroadcastParts {
  category: string | null;
  topic: string | null;
  /** By itself, because inboxes read it without the recipients. */
  messageJson: JsonText;
  inAppJson: string | null;
  overridesJson: JsonText | null;
  recipientsJson: JsonText | null;
  templateJson: string | null;
}

/** Splits a broadcast into its parts. One with a template has the texts that it shows without a user. */
export function splitBroadcast(
  broadcast: NewBroadcast,
  raw: RawBroadcast = {},
  template?: TemplateReference,
): BroadcastParts {
  const { title, content = null, action_url = null, custom_attributes = null, overrides } = broadcast;
  const { members, recipients } = raw;
  const inApp = overrides?.channels?.in_app;
  return {
    category: broadcast.category ?? null,
    topic: broadcast.topic ?? null,
    messageJson:
      members === undefined
        ? writeJson({ title, content, action_url, custom_attributes })
        : longMessageJson(members),
    inAppJson: inApp ? JSON.stringify(inApp) : null,
    overridesJson: overrides ? (bytesOf(members?.get('overrides')) ?? writeJson(overrides)) : null,
    recipientsJson: broadcast.recipients && (bytesOf(recipients) ?? writeJson(broadcast.recipients)),
    templateJson: template === undefined ? null : writeJson(template),
  };
}

function longMessageJson(members: ReadonlyMap<string, Buffer>): JsonText {
  const textOf = (name: string) => bytesOf(members.get(name)) ?? 'null';
  return joinTexts([
    ...['{"title":', textOf('title'), ',"content":', textOf('content')],
    ...[',"action_url":', textOf('action_url'), ',"custom_attributes":', textOf('custom_attributes'), '}'],
  ]);
}

function bytesOf(text: Buffer | undefined): JsonBytes | undefined {
  return text && new JsonBytes([text]);
}

/** The same parts as they are stored: packed. */
interface PackedBroadcast {
  message: Buffer;
  inApp: Buffer | null;
  overrides: Buffer | null;
  recipients: Buffer | null;
  template: Buffer | null;
}

export async function packBroadcast(parts: BroadcastParts): Promise<PackedBroadcast> {
  const { messageJson, inAppJson, overridesJson, recipientsJson, templateJson } = parts;
  return {
    message: await packJsonInThread(messageJson),
    inApp: inAppJson === null ? null : await packJsonInThread(inAppJson),
    overrides: overridesJson === null ? null : await packJsonInThread(overridesJson),
    recipients: recipientsJson === null ? null : await packJsonInThread(recipientsJson),
    template: templateJson === null ? null : await packJsonInThread(templateJson),
  };
}

export type BroadcastStatus = 'enqueued' | 'processing' | 'processed';

/** A broadcast's row with its packed columns, each in parts. */
export interface BroadcastRow {
  id: string;
  category: string | null;
  topic: string | null;
  message: readonly Buffer[];
  overrides: readonly Buffer[] | null;
  recipients: readonly Buffer[] | null;
  template: Buffer | null;
  status: BroadcastStatus;
  total: number;
  failures: number;
  pending: number;
  errors: string | null;
  send_at: Date | null;
  cancelled_at: Date | null;
}

/** What a broadcast's JSON has besides its parts. */
export type BroadcastState = Omit<
  BroadcastRow,
  'id' | 'category' | 'topic' | 'message' | 'overrides' | 'recipients' | 'template'
>;

/** Joins the parts of a broadcast to its JSON text in a version of the API. */
export type BroadcastFormat = (
  id: string,
  parts: Omit<BroadcastParts, 'inAppJson'>,
  state: BroadcastState,
) => JsonText;

/** A row as JSON text, by default the contract's `Broadcast`. The stored parts are not parsed. */
export async function broadcastJson(
  row: BroadcastRow,
  format: BroadcastFormat = joinBroadcast,
): Promise<JsonText> {
  const { id, category, topic } = row;
  const [messageJson, overridesJson, recipientsJson] = await Promise.all([
    unpackJsonInThread(row.message),
    row.overrides && unpackJsonInThread(row.overrides),
    row.recipients && unpackJsonInThread(row.recipients),
  ]);
  const templateJson = row.template && (await unpackJsonInTurns([row.template]));
  return format(id, { category, topic, messageJson, overridesJson, recipientsJson, templateJson }, row);
}

/** The same when the broadcast has just been accepted. */
export function acceptedJson(
  id: string,
  parts: BroadcastParts,
  { total, sendAt, errors }: { total: number; sendAt: Date | null; errors: string | null },
  format: BroadcastFormat = joinBroadcast,
): JsonText {
  const none = { failures: 0, pending: 0, cancelled_at: null };
  return format(id, parts, { status: 'enqueued', total, errors, send_at: sendAt, ...none });
}

function joinBroadcast(
  id: string,
  parts: Omit<BroadcastParts, 'inAppJson'>,
  state: BroadcastState,
): JsonText {
  const { category, topic, messageJson, overridesJson, recipientsJson, templateJson } = parts;
  const { status, total, failures, pending, errors } = state;
  return joinTexts([
    `{"id":"${id}",`,
    typeof messageJson === 'string' ? messageJson.slice(1, -1) : messageJson.withoutBraces(),
    `,"category":${JSON.stringify(category)},"topic":${JSON.stringify(topic)},"recipients":`,
    recipientsJson === null ? 'null' : shortAsString(recipientsJson),
    ',"overrides":',
    overridesJson ?? 'null',
    ...(templateJson === null ? [] : [`,"template":${templateJson}`]),
    `,"created_at":"${new Date(timeOf(id)).toISOString()}",` +
      `"send_at":${JSON.stringify(state.send_at)},"cancelled_at":${JSON.stringify(state.cancelled_at)},` +
      `"status":{"status":"${status}",` +
      `"summary":{"total":${total},"failures":${failures},"pending":${pending}},` +
      `"errors":${errors ?? 'null'}}}`,
  ]);
}

// A short body is sent by one write, together with the head of the response.
const SHORT_BYTES = 4_096;

/** A short text as a string. */
export function shortAsString(text: JsonText): JsonText {
  return typeof text !== 'string' && text.length < SHORT_BYTES ? text.toString() : text;
}

/** The kinds of a broadcast's recipients. */
export interface RecipientCount {
  /** How many name a user. */
  named: number;
  /** The group that is addressed too, however large it is. All users include the subscribers of a topic. */
  group: RecipientGroup | undefined;
  /** The number of users that the first page has at most. */
  ofFirstPage: number;
}

export function countRecipients(recipients: readonly Recipient[]): RecipientCount {
  let named = 0;
  let group: RecipientGroup | undefined;
  for (const recipient of recipients) {
    const one = groupOf(recipient);
    if (one === undefined) named += 1;
    else if (group !== 'everyone') group = one;
  }
  return { named, group, ofFirstPage: named === 0 && group !== undefined ? USERS_PER_PAGE : named };
}

/** The recipients of a broadcast that name a user. */
export interface NamedRecipients {
  people: Person[];
  /** The index of each of `people` among the recipients. */
  positions: number[];
}

/** Reads the recipients that name a user. They were validated when the broadcast was accepted. Pure. */
export function readRecipients(
  of: Pick<Person, 'projectId' | 'cause'>,
  recipients: readonly Recipient[],
): NamedRecipients {
  const read: NamedRecipients = { people: [], positions: [] };
  recipients.forEach((recipient, index) => {
    if (!isNamed(recipient)) return;
    read.positions.push(index);
    read.people.push(personOf(of, recipient));
  });
  return read;
}

function personOf(of: Person, recipient: NamedRecipient): Person {
  const person: Person = { ...of };
  if (recipient.external_id != null) person.externalId = recipient.external_id;
  if (recipient.email != null) person.email = recipient.email;
  if (recipient.first_name !== undefined) person.firstName = recipient.first_name;
  if (recipient.last_name !== undefined) person.lastName = recipient.last_name;
  if (recipient.locale !== undefined) person.locale = recipient.locale && canonicalLocale(recipient.locale);
  if (recipient.custom_attributes !== undefined) {
    person.customAttributes =
      recipient.custom_attributes === null ? null : writeJson(recipient.custom_attributes);
  }
  if (recipient.phone_numbers !== undefined) person.phoneNumbers = recipient.phone_numbers;
  return person;
}

/** The external id that replaces the names of an erased user among the recipients of a broadcast. */
export const erasedName = (userId: string): string => `deleted:${userId}`;

const ERASED = /^deleted:[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

export function isErasedName(externalId: string | undefined): boolean {
  return externalId !== undefined && ERASED.test(externalId);
}

/** The error of such a recipient. */
export const USER_WAS_ERASED = 'this user is deleted';

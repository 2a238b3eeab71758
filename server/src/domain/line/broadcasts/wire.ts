import type { NewBroadcast } from '../../../contract/broadcast.ts';
import { timeOf } from '../../../lib/ids.ts';
import { type JsonText, joinTexts } from '../../../lib/json-text.ts';
import { ownText } from '../../../lib/own-text.ts';
import { packJsonElsewhere, unpackJsonElsewhere } from '../../../lib/packed-json.ts';
import { countRecipients, type RecipientCount } from './recipients.ts';

/** A broadcast's columns that hold what was sent, and the JSON they were made of. */
export interface StoredBody {
  category: string | null;
  topic: string | null;
  messageJson: JsonText;
  inAppJson: string | null;
  overridesJson: JsonText | null;
  recipientsJson: Buffer | null;
  recipients: RecipientCount;
}

/** A request to send. */
export interface SentBroadcast {
  body: NewBroadcast;
  /**
   * The JSON text that `body.recipients` were parsed from: it is stored and answered as it came, which spares
   * writing it anew.
   */
  recipientsJson: Buffer | undefined;
  /** The whole request's: numbers in its custom attributes are kept as they were written. */
  json?: Buffer | undefined;
  /** The JSON texts of the body's members, where it is long. */
  texts?: ReadonlyMap<string, Buffer> | undefined;
}

/**
 * Splits a request into what is stored: the message by itself, because inboxes read it without the
 * recipients.
 */
export function storedBody({ body, recipientsJson, json, texts }: SentBroadcast): StoredBody {
  const inApp = body.overrides?.channels?.in_app;
  if (body.recipients && recipientsJson === undefined) throw new Error('recipients came without their text');
  return {
    category: body.category ?? null,
    topic: body.topic ?? null,
    messageJson:
      texts === undefined
        ? messageJson(
            { title: body.title, content: body.content ?? null, action_url: body.action_url ?? null },
            ownText(json, 'custom_attributes', body.custom_attributes ?? null),
          )
        : longMessageJson(texts),
    inAppJson: inApp ? JSON.stringify(inApp) : null,
    overridesJson: body.overrides ? (texts?.get('overrides') ?? JSON.stringify(body.overrides)) : null,
    recipientsJson: (body.recipients && recipientsJson) || null,
    recipients: countRecipients(body.recipients ?? []),
  };
}

/** What a broadcast says, as JSON text: its texts, and last its custom attributes as they were given. */
function messageJson(
  texts: { title: string; content: string | null; action_url: string | null },
  attributesJson: string,
): string {
  return `${JSON.stringify(texts).slice(0, -1)},"custom_attributes":${attributesJson}}`;
}

/** The same of the texts of its members. */
function longMessageJson(texts: ReadonlyMap<string, Buffer>): Buffer {
  const of = (name: string) => texts.get(name) ?? NULL;
  return Buffer.concat([
    ...[Buffer.from('{"title":'), of('title'), Buffer.from(',"content":'), of('content')],
    ...[Buffer.from(',"action_url":'), of('action_url')],
    ...[Buffer.from(',"custom_attributes":'), of('custom_attributes'), Buffer.from('}')],
  ]);
}

export type BroadcastStatus = 'enqueued' | 'processing' | 'processed';

/** A broadcast's row with its packed columns. */
export interface BroadcastRow {
  id: string;
  category: string | null;
  topic: string | null;
  message: Buffer;
  overrides: Buffer | null;
  recipients: Buffer | null;
  status: BroadcastStatus;
  total: number;
  failures: number;
  pending: number;
  errors: string | null;
}

/**
 * The wire form of a stored broadcast, as JSON text: the stored parts are put together without being parsed.
 */
export async function broadcastJson(row: BroadcastRow): Promise<JsonText> {
  const [message, overrides, recipients] = await Promise.all([
    unpackJsonElsewhere(row.message),
    row.overrides && unpackJsonElsewhere(row.overrides),
    row.recipients && unpackJsonElsewhere(row.recipients),
  ]);
  return joinTexts(
    around(
      row.id,
      { category: row.category, topic: row.topic, messageJson: message, overridesJson: overrides },
      row,
      recipients ?? 'null',
    ),
  );
}

/** The wire form of a broadcast that has just been accepted. */
export function acceptedJson(id: string, body: StoredBody): JsonText {
  const recipients = body.recipientsJson ?? NULL;
  const parts = around(
    id,
    body,
    { status: 'enqueued', total: body.recipients.named, failures: 0, pending: 0, errors: null },
    // What is short is sent by one write, together with the head of the answer.
    recipients.length < SHORT_BYTES ? recipients.toString() : recipients,
  );
  return joinTexts(parts);
}

const NULL = Buffer.from('null');
const SHORT_BYTES = 4_096;

/** A body's columns as they are stored. */
export interface PackedColumns {
  message: Buffer;
  inApp: Buffer | null;
  overrides: Buffer | null;
  recipients: Buffer | null;
}

/** Packs a body's columns. */
export async function packed(body: StoredBody): Promise<PackedColumns> {
  const { messageJson, inAppJson, overridesJson, recipientsJson } = body;
  return {
    message: await packJsonElsewhere(messageJson),
    inApp: inAppJson === null ? null : await packJsonElsewhere(inAppJson),
    overrides: overridesJson === null ? null : await packJsonElsewhere(overridesJson),
    recipients: recipientsJson === null ? null : await packJsonElsewhere(recipientsJson),
  };
}

/** The wire form in parts. */
function around(
  id: string,
  body: Pick<StoredBody, 'category' | 'topic' | 'messageJson' | 'overridesJson'>,
  state: Pick<BroadcastRow, 'status' | 'total' | 'failures' | 'pending' | 'errors'>,
  recipients: JsonText,
): JsonText[] {
  const { messageJson } = body;
  return [
    `{"id":"${id}",`,
    typeof messageJson === 'string' ? messageJson.slice(1, -1) : messageJson.subarray(1, -1),
    `,"category":${JSON.stringify(body.category)},"topic":${JSON.stringify(body.topic)},"recipients":`,
    recipients,
    ',"overrides":',
    body.overridesJson ?? 'null',
    `,"created_at":"${new Date(timeOf(id)).toISOString()}","status":{"status":"${state.status}",` +
      `"summary":{"total":${state.total},"failures":${state.failures},"pending":${state.pending}},"errors":${state.errors ?? 'null'}}}`,
  ];
}

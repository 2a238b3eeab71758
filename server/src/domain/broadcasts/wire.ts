import type { NewBroadcast } from '../../contract/broadcast.ts';
import { timeOf } from '../../lib/ids.ts';
import { ownText } from '../../lib/own-text.ts';
import { packJsonElsewhere, unpackJson } from '../../lib/packed-json.ts';
import { countRecipients, type RecipientCount } from './recipients.ts';

/** A broadcast's columns that hold what was sent, and the JSON they were made of. */
export interface StoredBody {
  category: string | null;
  topic: string | null;
  messageJson: string;
  inAppJson: string | null;
  overridesJson: string | null;
  recipientsJson: Buffer | null;
  recipients: RecipientCount;
}

/** A request to send. */
export interface SentBroadcast {
  body: NewBroadcast;
  /** The JSON text that `body.recipients` were parsed from: it is stored and answered as it came, which spares writing it anew. */
  recipientsJson: Buffer | undefined;
  /** The whole request's: numbers in its custom attributes are kept as they were written. */
  json?: Buffer | undefined;
}

/** Splits a request into what is stored: the message by itself, because inboxes read it without the recipients. */
export function storedBody({ body, recipientsJson, json }: SentBroadcast): StoredBody {
  const inApp = body.overrides?.channels?.in_app;
  if (body.recipients && recipientsJson === undefined) throw new Error('recipients came without their text');
  return {
    category: body.category ?? null,
    topic: body.topic ?? null,
    messageJson: messageJson(
      { title: body.title, content: body.content ?? null, action_url: body.action_url ?? null },
      ownText(json, 'custom_attributes', body.custom_attributes ?? null),
    ),
    inAppJson: inApp ? JSON.stringify(inApp) : null,
    overridesJson: body.overrides ? JSON.stringify(body.overrides) : null,
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
  errors: string | null;
}

/** The wire form of a stored broadcast, as JSON text: the stored parts are put together without being parsed. */
export function broadcastJson(row: BroadcastRow): string {
  const [before, after] = aroundRecipients(
    row.id,
    {
      category: row.category,
      topic: row.topic,
      messageJson: unpackJson(row.message),
      overridesJson: row.overrides && unpackJson(row.overrides),
    },
    { status: row.status, total: row.total, failures: row.failures, errors: row.errors },
  );
  return `${before}${row.recipients === null ? 'null' : unpackJson(row.recipients)}${after}`;
}

/** The wire form of a broadcast that has just been accepted. */
export function acceptedJson(id: string, body: StoredBody): string | Buffer {
  const [before, after] = aroundRecipients(id, body, {
    status: 'enqueued',
    total: body.recipients.named,
    failures: 0,
    errors: null,
  });
  const recipients = body.recipientsJson ?? NULL;
  // What is short is sent by one write, together with the head of the answer.
  if (recipients.length < SHORT_BYTES) return `${before}${recipients.toString()}${after}`;
  return Buffer.concat([Buffer.from(before), recipients, Buffer.from(after)]);
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

/** What stands before the recipients in the wire form, and what after them. */
function aroundRecipients(
  id: string,
  body: Pick<StoredBody, 'category' | 'topic' | 'messageJson' | 'overridesJson'>,
  state: { status: BroadcastStatus; total: number; failures: number; errors: string | null },
): [before: string, after: string] {
  return [
    `{"id":"${id}",${body.messageJson.slice(1, -1)},"category":${JSON.stringify(body.category)},"topic":${JSON.stringify(body.topic)},"recipients":`,
    `,"overrides":${body.overridesJson ?? 'null'},` +
      `"created_at":"${new Date(timeOf(id)).toISOString()}","status":{"status":"${state.status}",` +
      `"summary":{"total":${state.total},"failures":${state.failures}},"errors":${state.errors ?? 'null'}}}`,
  ];
}

import { JOB_KINDS } from '../../../queue/jobs.ts';
import type { RealtimeMessage } from './messages.ts';

/** What a server that carries messages allows, and what pays on the way over it. */
export interface WireFormat {
  readonly maxBytes: number;
  /** Longer lists of users are left out: nodes read them from the database. */
  readonly maxUsers: number;
  /** Larger contents are left out. */
  readonly maxContentBytes: number;
}

/** PostgreSQL rejects a payload of 8,000 bytes or more (NOTIFY_PAYLOAD_MAX_LENGTH). */
export const NOTIFY_FORMAT: WireFormat = {
  maxBytes: 7_900,
  maxUsers: 16, // 39 bytes each: cheaper to send than a query on every node
  maxContentBytes: 0,
};

/** NATS accepts 1 MB by default: the users of a page and the content save every node two queries. */
export function natsFormat(maxBytes = 1_048_576): WireFormat {
  return { maxBytes, maxUsers: 1_000, maxContentBytes: 32_768 };
}

/** The same, without what receivers can read from the database. */
export function withoutContent(format: WireFormat): WireFormat {
  return { ...NOTIFY_FORMAT, maxBytes: format.maxBytes };
}

/**
 * Encodes messages for other nodes. Each payload has at most `maxBytes` and is a JSON array: the id of the
 * sending node, then its messages in order.
 */
export function encodeMessages(
  nodeId: string,
  messages: readonly RealtimeMessage[],
  format: WireFormat,
): string[] {
  const start = `[${JSON.stringify(nodeId)}`;
  const room = format.maxBytes - Buffer.byteLength(start) - 1;
  const payloads: string[] = [];
  let parts: string[] = [];
  let used = 0;
  const end = () => {
    if (parts.length > 0) payloads.push(`${start}${parts.join('')}]`);
    parts = [];
    used = 0;
  };
  for (const message of messages) {
    const part = `,${encode(message, format, room - 1)}`;
    const bytes = Buffer.byteLength(part);
    if (used + bytes > room) end();
    parts.push(part);
    used += bytes;
  }
  end();
  return payloads;
}

/** Encodes that a node is connected, or that it `leaves`: other nodes need not wait for it any more. */
export function encodePresence(nodeId: string, { leaves }: { leaves: boolean }): string {
  return JSON.stringify(leaves ? [nodeId, LEAVES] : [nodeId]);
}

export interface Decoded {
  nodeId: string;
  messages: RealtimeMessage[];
  /** What the payload says of its node; undefined if it has messages only. */
  presence: 'connected' | 'leaves' | undefined;
}

/** Decodes a payload. Returns undefined if it is not Belfry's or comes from an incompatible release. */
export function decodeMessages(payload: string): Decoded | undefined {
  try {
    const [nodeId, ...messages] = JSON.parse(payload) as [unknown, ...unknown[]];
    if (typeof nodeId !== 'string') return undefined;
    const presence = messages.length === 0 ? 'connected' : messages.some(isLeaves) ? 'leaves' : undefined;
    return { nodeId, messages: messages.filter(isMessage).map(withBuffers), presence };
  } catch {
    // Any program with access to the database can write into the channel.
    return undefined;
  }
}

// Releases that do not know it ignore it.
const LEAVES = { type: 'leaves' };

function isLeaves(value: unknown): boolean {
  return typeof value === 'object' && value !== null && 'type' in value && value.type === LEAVES.type;
}

function encode(message: RealtimeMessage, format: WireFormat, room: number): string {
  const full = JSON.stringify(slim(message, format));
  if (Buffer.byteLength(full) <= room) return full;
  const small = slim(message, withoutContent(format));
  const json = JSON.stringify(small);
  if (Buffer.byteLength(json) <= room) return json;
  // Only a client id can be this long. Without it, the client receives a message about its own change.
  return JSON.stringify({ ...small, clientId: undefined });
}

function slim(message: RealtimeMessage, { maxUsers, maxContentBytes }: WireFormat): object {
  if (message.type !== 'new') return message;
  const { content, ...sent } = message;
  if (message.only !== true && message.userIds.length > maxUsers) {
    const { userIds: _, ...rest } = sent;
    return { ...rest, type: 'new_elsewhere' };
  }
  if (content === undefined || content.message.length + (content.inApp?.length ?? 0) > maxContentBytes)
    return sent;
  const { message: packed, inApp } = content;
  const encoded = { message: packed.toString('base64'), inApp: inApp?.toString('base64') ?? null };
  return { ...sent, content: { ...content, ...encoded } };
}

/** Decodes the content of a message, which `isMessage` has checked. */
function withBuffers(message: RealtimeMessage): RealtimeMessage {
  if (message.type !== 'new' || message.content === undefined) return message;
  const { message: packed, inApp, ...rest } = message.content as unknown as EncodedContent;
  const content = { message: Buffer.from(packed, 'base64'), inApp: inApp && Buffer.from(inApp, 'base64') };
  return { ...message, content: { ...rest, ...content } } as RealtimeMessage;
}

interface EncodedContent {
  category: string | null;
  topic: string | null;
  message: string;
  inApp: string | null;
}

function isContent(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false;
  const { message, ...rest } = value as Record<string, unknown>;
  const optional = ['category', 'topic', 'inApp'].map((name) => rest[name]);
  return typeof message === 'string' && optional.every((one) => one === null || typeof one === 'string');
}

// Messages may come from another release, so they are validated.
function isMessage(value: unknown): value is RealtimeMessage {
  if (typeof value !== 'object' || value === null) return false;
  const message = value as Record<string, unknown>;
  switch (message.type) {
    case 'new':
    case 'new_elsewhere':
      return (
        strings(message, ['projectId', 'broadcastId']) &&
        typeof message.sentAtMs === 'number' &&
        (message.page === undefined || Number.isSafeInteger(message.page)) &&
        (message.type === 'new_elsewhere' ||
          (isStrings(message.userIds) && (message.content === undefined || isContent(message.content))))
      );
    case 'changed':
      return (
        strings(message, ['userId', 'name', 'id']) &&
        typeof message.atMs === 'number' &&
        (message.clientId === undefined || typeof message.clientId === 'string')
      );
    case 'token_discarded':
      return strings(message, ['userId', 'tokenId']);
    case 'many_changed':
    case 'user_deleted':
    case 'user_restored':
      return strings(message, ['userId']);
    case 'identities_changed':
      return isStrings(message.keys);
    case 'project_changed':
      return strings(message, ['projectId']);
    case 'appearance_changed':
      return (
        strings(message, ['projectId']) &&
        (message.userId === undefined || typeof message.userId === 'string')
      );
    case 'broadcast_cancelled':
      return strings(message, ['broadcastId']);
    case 'jobs':
      return strings(message, ['nodeId']) && JOB_KINDS.some((kind) => kind === message.kind);
    case 'rate_limit_short':
      return strings(message, ['name', 'nodeId']);
    case 'pause_changed':
      return strings(message, ['projectId', 'integrationId', 'host', 'nodeId']);
    case 'cells_changed':
      return true;
    case 'project_moving':
    case 'project_stays':
      return strings(message, ['projectId', 'apiKey']);
    case 'project_moved':
      return strings(message, ['projectId', 'apiKey', 'cell']);
    case 'missed':
      return [message.sinceMs, message.untilMs].every((ms) => ms === undefined || typeof ms === 'number');
    default:
      return false;
  }
}

function strings(value: Record<string, unknown>, names: readonly string[]): boolean {
  return names.every((name) => typeof value[name] === 'string');
}

function isStrings(value: unknown): boolean {
  return Array.isArray(value) && value.every((item) => typeof item === 'string');
}

import { JOB_KINDS } from '../../../queue/jobs.ts';
import type { RealtimeMessage } from './messages.ts';

// PostgreSQL rejects a payload of 8,000 bytes or more (NOTIFY_PAYLOAD_MAX_LENGTH).
const MAX_PAYLOAD_BYTES = 7_900;
// 37 bytes each: cheaper to send than a query on every node.
const MAX_INLINE_USERS = 16;

/**
 * Encodes messages for other nodes. Each payload fits into one NOTIFY and is a JSON array: the id of the
 * sending node, then its messages in order.
 */
export function encodeMessages(nodeId: string, messages: readonly RealtimeMessage[]): string[] {
  const start = `[${JSON.stringify(nodeId)}`;
  const room = MAX_PAYLOAD_BYTES - Buffer.byteLength(start) - 1;
  const payloads: string[] = [];
  let parts: string[] = [];
  let used = 0;
  const end = () => {
    if (parts.length > 0) payloads.push(`${start}${parts.join('')}]`);
    parts = [];
    used = 0;
  };
  for (const message of messages) {
    const part = `,${encode(message, room - 1)}`;
    const bytes = Buffer.byteLength(part);
    if (used + bytes > room) end();
    parts.push(part);
    used += bytes;
  }
  end();
  return payloads;
}

/** Decodes a payload. Returns undefined if it is not Belfry's or comes from an incompatible release. */
export function decodeMessages(payload: string): { nodeId: string; messages: RealtimeMessage[] } | undefined {
  try {
    const [nodeId, ...messages] = JSON.parse(payload) as [unknown, ...unknown[]];
    if (typeof nodeId !== 'string') return undefined;
    return { nodeId, messages: messages.filter(isMessage) };
  } catch {
    // Any program with access to the database can write into the channel.
    return undefined;
  }
}

function encode(message: RealtimeMessage, room: number): string {
  const json = JSON.stringify(slim(message));
  if (Buffer.byteLength(json) <= room) return json;
  // Only a client id can be this long. Without it, the client receives a message about its own change.
  return JSON.stringify({ ...slim(message), clientId: undefined });
}

function slim(message: RealtimeMessage): RealtimeMessage {
  if (message.type !== 'new') return message;
  const { content: _, ...sent } = message;
  if (message.only === true || message.userIds.length <= MAX_INLINE_USERS) return sent;
  const { userIds: __, ...rest } = sent;
  return { ...rest, type: 'new_elsewhere' };
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
        (message.type === 'new_elsewhere' || isStrings(message.userIds))
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
    case 'missed':
      return message.sinceMs === undefined || typeof message.sinceMs === 'number';
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

import type { RealtimeMessage } from './messages.ts';

// PostgreSQL refuses a payload of 8,000 bytes or more (NOTIFY_PAYLOAD_MAX_LENGTH).
const MAX_PAYLOAD_BYTES = 7_900;
// 37 bytes each: so many are cheaper to send along than for every node to look up.
const MAX_INLINE_USERS = 16;

/**
 * The payloads that carry these messages to other nodes, each short enough for one NOTIFY: a JSON array of
 * the sending node and its messages, in order.
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

/**
 * What a payload says; `undefined` when it is not one of ours or of a release that this one does not
 * understand.
 */
export function decodeMessages(payload: string): { nodeId: string; messages: RealtimeMessage[] } | undefined {
  try {
    const [nodeId, ...messages] = JSON.parse(payload) as [unknown, ...unknown[]];
    if (typeof nodeId !== 'string') return undefined;
    return { nodeId, messages: messages.filter(isMessage) };
  } catch {
    // Anyone with access to the database can write into the channel; what cannot be read says nothing to us.
    return undefined;
  }
}

function encode(message: RealtimeMessage, room: number): string {
  const json = JSON.stringify(slim(message));
  if (Buffer.byteLength(json) <= room) return json;
  // Only a client's own name for itself can be this long. Without it the client merely sees its own echo.
  return JSON.stringify({ ...slim(message), clientId: undefined });
}

function slim(message: RealtimeMessage): RealtimeMessage {
  if (message.type !== 'new') return message;
  const { content: _, ...told } = message;
  if (message.only === true || message.userIds.length <= MAX_INLINE_USERS) return told;
  const { userIds: __, ...rest } = told;
  return { ...rest, type: 'new_elsewhere' };
}

// Written by another node, perhaps of another release: looked at before it is trusted.
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
    case 'user_deleted':
    case 'user_restored':
      return strings(message, ['userId']);
    case 'identities_changed':
      return isStrings(message.keys);
    case 'project_changed':
      return strings(message, ['projectId']);
    case 'rate_limit_short':
      return strings(message, ['name', 'nodeId']);
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

import { newId, notificationId, timeOf } from '../../../lib/ids.ts';
import type { ChangeName, NotificationChanged } from '../../ground/bus/messages.ts';
import { iso, type NotificationTimes, notificationJson } from '../../line/notifications/contents.ts';
import { deliveryKey } from './resume-cursor.ts';

/** A message to the connections of one user, ready to write. */
export interface Frame {
  readonly id: string;
  readonly name: 'notifications/new' | `notifications/${ChangeName}` | 'inbox/theme';
  /** The frame as clients read it. */
  readonly json: string;
  /** Identifies this delivery in a resume cursor; undefined if it is not sent again after a resume. */
  readonly key: number | undefined;
  /** The time of the event, by the database's clock. */
  readonly atMs: number;
}

/**
 * Builds the frames of a broadcast's new notifications. Serializes what is the same for all users once.
 * `content` comes from `BroadcastContents`. If it is empty, clients have to fetch the notification.
 */
export function newFrames(broadcastId: string, sentAtMs: number, content: string): (userId: string) => Frame {
  const times = {
    sentAtMs,
    seenAtMs: null,
    readAtMs: null,
    archivedAtMs: null,
    discardedAtMs: null,
    snoozedUntilMs: null,
    updatedAtMs: null,
  };
  const build = member(broadcastId, times, content);
  const timestamp = iso(sentAtMs);
  return (userId) => {
    const notification = notificationId(broadcastId, userId);
    const id = newId();
    const data = `{"id":"${notification}"${build(notification, userId)}}`;
    const json = frameJson(id, 'new', timestamp, data);
    return { id, name: 'notifications/new', json, key: deliveryKey(notification, sentAtMs), atMs: sentAtMs };
  };
}

/** The frame of a change as it happens. */
export function changeFrame({ id: changed, name, atMs, clientId }: NotificationChanged): Frame {
  const id = newId();
  const data = { id: changed, ...(clientId === undefined ? {} : { client_id: clientId }) };
  const json = frameJson(id, name, iso(atMs), JSON.stringify(data));
  return { id, name: `notifications/${name}`, json, key: deliveryKey(changed, atMs), atMs };
}

/** The longest config of an inbox that a stream sends. Thousands of connections multiply every byte. */
export const MAX_APPEARANCE_CHARACTERS = 64 * 1024;

/** The frame of the config of an inbox; undefined if it is too large: inboxes get it when they open. */
export function appearanceFrame(config: object, atMs: number): Frame | undefined {
  const id = newId();
  const json = JSON.stringify({
    id,
    name: 'inbox/theme',
    timestamp: new Date(atMs).toISOString(),
    data: config,
  });
  if (json.length > MAX_APPEARANCE_CHARACTERS) return undefined;
  return { id, name: 'inbox/theme', json, key: undefined, atMs };
}

/** A notification as stored. */
export interface NotificationState extends NotificationTimes {
  id: string;
  userId: string;
  broadcastId: string;
}

/** The frame of a notification that arrived while the client was disconnected, in its present state. */
export function missedNewFrame(state: NotificationState, content: string): Frame {
  return stateFrame('new', state, state.sentAtMs, deliveryKey(state.id, state.sentAtMs), content);
}

/** The frame of the last change that a client missed, derived from the times of the notification. */
export function missedChangeFrame(state: NotificationState, atMs: number, content: string): Frame {
  return stateFrame(lastChange(state), state, atMs, deliveryKey(state.id, atMs), content);
}

function stateFrame(
  name: 'new' | ChangeName,
  state: NotificationState,
  atMs: number,
  key: number,
  content: string,
): Frame {
  const id = newId();
  const notification =
    name === 'delete' ? '' : member(state.broadcastId, state, content)(state.id, state.userId);
  const json = frameJson(id, name, iso(atMs), `{"id":"${state.id}"${notification}}`);
  return { id, name: `notifications/${name}`, json, key, atMs };
}

function frameJson(id: string, name: 'new' | ChangeName, timestamp: string, data: string): string {
  return `{"id":"${id}","name":"notifications/${name}","timestamp":${timestamp},"data":${data}}`;
}

function lastChange(state: NotificationState): ChangeName {
  const { updatedAtMs, discardedAtMs, snoozedUntilMs, archivedAtMs, readAtMs, seenAtMs } = state;
  if (discardedAtMs !== null) return 'delete';
  if (snoozedUntilMs !== null) return 'snoozed';
  // Archiving and reading set several times together: the most specific change counts.
  if (archivedAtMs !== null && archivedAtMs === updatedAtMs) return 'archived';
  if (readAtMs !== null && readAtMs === updatedAtMs) return 'read';
  if (seenAtMs !== null && seenAtMs === updatedAtMs) return 'seen';
  // The last change removed a time.
  if (archivedAtMs !== null) return 'archived';
  return readAtMs === null ? 'unread' : 'unarchived';
}

/** `,"notification":{…}` for any user's notification of the broadcast; empty without content. */
function member(
  broadcastId: string,
  times: NotificationTimes,
  content: string,
): (id: string, userId: string) => string {
  if (content === '') return () => '';
  const json = notificationJson(timeOf(broadcastId), times, content);
  return (id, userId) => `,"notification":${json(id, userId)}`;
}

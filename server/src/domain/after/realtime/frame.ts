import { newId, notificationId, timeOf } from '../../../lib/ids.ts';
import type { ChangeName, NotificationChanged } from '../../ground/bus/messages.ts';
import { iso, type NotificationTimes, notificationJson } from '../../line/notifications/wire.ts';
import { deliveryKey } from './resume-cursor.ts';

/** What one user's connections are told, ready to be written. */
export interface Frame {
  readonly id: string;
  readonly name: 'notifications/new' | `notifications/${ChangeName}`;
  /** The frame as clients read it. */
  readonly json: string;
  /** Stands for this delivery in a resume cursor. */
  readonly key: number;
  /** When it happened, by the database's clock. */
  readonly atMs: number;
}

/**
 * Builds the frames of a broadcast's new notifications: everything that is the same for all users is
 * serialized once, here. `content` is what `BroadcastContents` made; an empty one leaves the notification
 * out, and clients fetch it.
 */
export function newFrames(broadcastId: string, sentAtMs: number, content: string): (userId: string) => Frame {
  const times = {
    sentAtMs,
    seenAtMs: null,
    readAtMs: null,
    archivedAtMs: null,
    discardedAtMs: null,
    updatedAtMs: null,
  };
  const build = member(broadcastId, times, content);
  const timestamp = iso(sentAtMs);
  return (userId) => {
    const notification = notificationId(broadcastId, userId);
    const id = newId();
    const json = `{"id":"${id}","name":"notifications/new","timestamp":${timestamp},"data":{"id":"${notification}"${build(notification, userId)}}}`;
    return { id, name: 'notifications/new', json, key: deliveryKey(notification), atMs: sentAtMs };
  };
}

/** The frame of a change as it happens. */
export function changeFrame({ id: changed, name, atMs, clientId }: NotificationChanged): Frame {
  const id = newId();
  const data = { id: changed, ...(clientId === undefined ? {} : { client_id: clientId }) };
  const json = `{"id":"${id}","name":"notifications/${name}","timestamp":${iso(atMs)},"data":${JSON.stringify(data)}}`;
  return { id, name: `notifications/${name}`, json, key: deliveryKey(changed, atMs), atMs };
}

/** A notification as it stands in the database. */
export interface NotificationState extends NotificationTimes {
  id: string;
  userId: string;
  broadcastId: string;
}

/** The frame that tells a client of a notification that came while it was away, in its present state. */
export function missedNewFrame(state: NotificationState, content: string): Frame {
  return stateFrame('new', state, state.sentAtMs, deliveryKey(state.id), content);
}

/**
 * The frame that tells a client of the last change that it missed: which one it was is read off the times.
 */
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
  const json = `{"id":"${id}","name":"notifications/${name}","timestamp":${iso(atMs)},"data":{"id":"${state.id}"${notification}}}`;
  return { id, name: `notifications/${name}`, json, key, atMs };
}

function lastChange(state: NotificationState): ChangeName {
  const { updatedAtMs, discardedAtMs, archivedAtMs, readAtMs, seenAtMs } = state;
  if (discardedAtMs !== null) return 'delete';
  // Archiving and reading set several times at once: the one that says most goes first.
  if (archivedAtMs !== null && archivedAtMs === updatedAtMs) return 'archived';
  if (readAtMs !== null && readAtMs === updatedAtMs) return 'read';
  if (seenAtMs !== null && seenAtMs === updatedAtMs) return 'seen';
  // The last change took a time away.
  if (archivedAtMs !== null) return 'archived';
  return readAtMs === null ? 'unread' : 'unarchived';
}

/** `,"notification":{…}` of any user's notification of the broadcast; nothing without content. */
function member(
  broadcastId: string,
  times: NotificationTimes,
  content: string,
): (id: string, userId: string) => string {
  if (content === '') return () => '';
  const json = notificationJson(timeOf(broadcastId), times, content);
  return (id, userId) => `,"notification":${json(id, userId)}`;
}

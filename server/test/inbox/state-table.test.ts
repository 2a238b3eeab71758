import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { sql } from '../../src/db/client.ts';
import type { NotificationAction } from '../../src/domain/line/notifications/change.ts';
import type { BulkAction } from '../../src/domain/line/notifications/change-all.ts';
import { newId } from '../../src/lib/ids.ts';
import { INBOX_INTERFACES, type InboxInterface } from '../support/inbox-interfaces.ts';
import { openSocket, openStream } from '../support/realtime.ts';
import { processed, startTestService, type TestService } from '../support/service.ts';

// Every state × every action × every interface, with the frames that the inboxes of the user receive.

type State = 'unseen' | 'unread' | 'read' | `archived ${'unseen' | 'unread' | 'read'}`;

/** The state after each action. A frame is sent if it differs, and after a deletion. */
const TABLE: Record<State, Record<Exclude<NotificationAction, 'delete'>, State>> = {
  unseen: {
    read: 'read',
    unread: 'unseen',
    seen: 'unread',
    archive: 'archived unseen',
    unarchive: 'unseen',
  },
  unread: {
    read: 'read',
    unread: 'unread',
    seen: 'unread',
    archive: 'archived unread',
    unarchive: 'unread',
  },
  read: {
    read: 'read',
    unread: 'unread',
    seen: 'read',
    archive: 'archived read',
    unarchive: 'read',
  },
  'archived unseen': {
    read: 'archived read',
    unread: 'archived unseen',
    seen: 'archived unread',
    archive: 'archived unseen',
    unarchive: 'unseen',
  },
  'archived unread': {
    read: 'archived read',
    unread: 'archived unread',
    seen: 'archived unread',
    archive: 'archived unread',
    unarchive: 'unread',
  },
  'archived read': {
    read: 'archived read',
    unread: 'archived unread',
    seen: 'archived read',
    archive: 'archived read',
    unarchive: 'read',
  },
};
const STATES = Object.keys(TABLE) as State[];
const FRAMES = {
  read: 'read',
  unread: 'unread',
  seen: 'seen',
  archive: 'archived',
  unarchive: 'unarchived',
  delete: 'delete',
} as const satisfies Record<NotificationAction, string>;
const ACTIONS = Object.keys(FRAMES) as NotificationAction[];
const BULK_ACTIONS: readonly BulkAction[] = ['read', 'seen', 'archive'];

let it: TestService;
let broadcastId: string;

beforeAll(async () => {
  it = await startTestService();
  const recipients = [{ external_id: 'ada' }];
  const { body } = await it.project.call('POST', '/broadcasts', { title: 'T', recipients });
  broadcastId = body.id;
  await processed(it.project.call, broadcastId);
});
afterAll(() => it.stop());

const insert = sql(
  'test_insert_state',
  `insert into notifications (user_id, id, broadcast_id, sent_at, category, seen_at, read_at, archived_at)
  select $1, $2, $3, now(), $4, case when not $5 like '%unseen' then now() end,
    case when $5 ~ '\\mread' then now() end, case when $5 like 'archived%' then now() end`,
);

/** A user with open inboxes, and a function that gives the user a notification in a state. */
async function openInboxes(name: string, how: string) {
  const externalId = name.replace(/\W+/g, '-');
  const { body: user } = await it.project.call('PUT', '/users', { external_id: externalId });
  const token = `${externalId}-${'t'.repeat(64)}`;
  await it.project.as(externalId)('PUT', '/channels/in_app/inbox/tokens', { token });
  const socket = await openSocket(
    `${it.address.replace('http', 'ws')}/?api_key=${it.project.apiKey}&token=${token}`,
  );
  const jwt = it.project.userJwt({ user_external_id: externalId });
  const stream = await openStream(`${it.address}/v2/notifications/stream`, { jwt });
  onTestFinished(() => {
    socket.socket.terminate();
    stream.source.close();
  });
  return {
    userId: user.id as string,
    inbox: INBOX_INTERFACES[how]?.(it.project, externalId) as InboxInterface,
    async arrive(state: State, category: string | null = null): Promise<string> {
      const id = newId();
      await it.context.db.query(insert, [user.id, id, broadcastId, category, state]);
      return id;
    },
    /** Both inboxes receive exactly these frames: a name and an id each. */
    async expectFrames(expected: [string, string][], { inOrder = true } = {}): Promise<void> {
      const ordered = (list: [string, string][]) => (inOrder ? list : list.toSorted());
      for (const { frames } of [socket, stream]) {
        await expect.poll(() => frames.length).toBeGreaterThanOrEqual(expected.length);
        const received = frames.map(({ name, data }): [string, string] => [name, data.id]);
        expect(ordered(received)).toEqual(
          ordered(expected.map(([frame, id]) => [`notifications/${frame}`, id])),
        );
      }
    },
  };
}

async function stateOf(inbox: InboxInterface, id: string): Promise<State | 'deleted'> {
  const times = await inbox.get(id);
  if (times === undefined) return 'deleted';
  const state = times.read_at !== null ? 'read' : times.seen_at !== null ? 'unread' : 'unseen';
  return times.archived_at === null ? state : `archived ${state}`;
}

describe.each(Object.keys(INBOX_INTERFACES))('by %s', (how) => {
  test('each action changes a notification in each state as the table says', async () => {
    const { inbox, arrive, expectFrames } = await openInboxes(`one by ${how}`, how);
    const frames: [string, string][] = [];
    for (const state of STATES)
      for (const action of ACTIONS) {
        const id = await arrive(state);
        expect(await stateOf(inbox, id)).toBe(state);
        const found = await inbox.change(action, id);
        if (found === undefined) continue; // no such operation
        const after = action === 'delete' ? 'deleted' : TABLE[state][action];
        expect([state, action, found, await stateOf(inbox, id)]).toEqual([state, action, true, after]);
        if (after !== state) frames.push([FRAMES[action], id]);
        if (action !== 'delete') continue;
        for (const repeated of ACTIONS) expect((await inbox.change(repeated, id)) ?? false).toBe(false);
      }
    await expectFrames(frames);
  });

  test.each(BULK_ACTIONS)('%s of all changes every state, and one frame says so', async (action) => {
    const { userId, inbox, arrive, expectFrames } = await openInboxes(`all ${action} by ${how}`, how);
    const ids = new Map<string, State>();
    for (const state of STATES) ids.set(await arrive(state), state);
    for (let count = 0; count < 2; count += 1) {
      const changing = inbox.changeAll(action, {});
      if (changing === undefined) return; // no such operation
      await changing;
    }
    for (const [id, state] of ids) expect(await stateOf(inbox, id)).toBe(TABLE[state][action]);
    await expectFrames([[`${action}/all`, userId]]);
  });

  test.each(BULK_ACTIONS)('%s of all in a category changes those, with a frame for each', async (action) => {
    const { inbox, arrive, expectFrames } = await openInboxes(`category ${action} by ${how}`, how);
    const [ids, others] = [new Map<string, State>(), new Map<string, State>()];
    for (const state of STATES) {
      ids.set(await arrive(state, 'news'), state);
      others.set(await arrive(state, 'orders'), state);
    }
    for (let count = 0; count < 2; count += 1) {
      const changing = inbox.changeAll(action, { category: 'news' });
      if (changing === undefined) return; // no such operation
      await changing;
    }
    for (const [id, state] of ids) expect(await stateOf(inbox, id)).toBe(TABLE[state][action]);
    for (const [id, state] of others) expect(await stateOf(inbox, id)).toBe(state);
    const changed = [...ids].filter(([, state]) => TABLE[state][action] !== state);
    await expectFrames(
      changed.map(([id]) => [FRAMES[action], id]),
      { inOrder: false },
    );
  });
});

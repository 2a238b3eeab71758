import { expect, onTestFinished, vi } from 'vitest';
import {
  createInbox,
  type Inbox,
  type InboxOptions,
  type InboxSnapshot,
  type ListSnapshot,
} from '../../src/store/index.ts';

/** What the stores need of a service. */
interface Service {
  address: string;
  project: {
    userJwt(claims: { user_external_id: string }): string;
    call(method: string, path: string, body: unknown): Promise<{ status: number; body: { id: string } }>;
  };
}

interface Options {
  service: () => Service;
  /** Waits until a broadcast is processed. */
  processed(call: Service['project']['call'], id: string): Promise<unknown>;
}

/** What the tests of a file do with the stores of inboxes. */
export function storesOf({ service, processed }: Options) {
  const opened: Inbox[] = [];
  let users = 0;
  const newUser = () => {
    users += 1;
    return `store-${users}`;
  };

  /** Opens the inbox of a user, connected. */
  async function open(user: string, options: Partial<InboxOptions> = {}): Promise<Inbox> {
    const { address, project } = service();
    const inbox = createInbox({
      baseUrl: `${address}/v2`,
      token: () => project.userJwt({ user_external_id: user }),
      ...options,
    });
    opened.push(inbox);
    inbox.subscribe(() => {});
    const isOpen = ({ connection, counts }: InboxSnapshot) =>
      ['live', 'polling'].includes(connection) && counts.unseen !== undefined;
    await expect.poll(() => isOpen(inbox.getSnapshot())).toBe(true);
    return inbox;
  }

  /** Sends a broadcast, and waits until it is in the inbox: the next one is above it. */
  async function send(user: string, broadcast: object = {}): Promise<void> {
    const { project } = service();
    const given = { title: 'Hello', recipients: [{ external_id: user }], ...broadcast };
    const { status, body } = await project.call('POST', '/broadcasts', given);
    expect(status).toBe(201);
    await processed(project.call, body.id);
  }

  return { opened, newUser, open, send };
}

export const titlesOf = ({ notifications }: ListSnapshot) => notifications.map(({ title }) => title);

/** Subscribes to a list, and returns what reads its titles. */
export function show(inbox: Inbox, filter?: Parameters<Inbox['list']>[0]) {
  const list = inbox.list(filter);
  list.subscribe(() => {});
  return { list, titles: () => titlesOf(list.getSnapshot()) };
}

/** A `fetch` whose responses to some requests are held until `release`. */
export function holding(isHeld: (url: URL) => boolean) {
  const { promise: released, resolve: release } = Promise.withResolvers<void>();
  const { promise: held, resolve: hold } = Promise.withResolvers<void>();
  return {
    held,
    release,
    async fetch(...[input, init]: Parameters<typeof fetch>) {
      const response = await fetch(input, init);
      if (isHeld(new URL(String(input)))) {
        hold();
        await released;
      }
      return response;
    },
  };
}

/** A browser that can go offline. */
export function offlineBrowser() {
  const page = new EventTarget();
  let onLine = true;
  vi.stubGlobal('addEventListener', page.addEventListener.bind(page));
  vi.stubGlobal('navigator', {
    get onLine() {
      return onLine;
    },
  });
  onTestFinished(() => void vi.unstubAllGlobals());
  return {
    set(isOnline: boolean) {
      onLine = isOnline;
      page.dispatchEvent(new Event(isOnline ? 'online' : 'offline'));
    },
    async fetch(...parameters: Parameters<typeof fetch>) {
      if (!onLine) throw new TypeError('offline');
      return fetch(...parameters);
    },
  };
}

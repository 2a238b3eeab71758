import type { Browser, Page } from 'playwright-core';
import type { BelfryInbox } from '../../src/element/belfry-inbox.ts';
import { addInbox, type Site, startSite } from './inbox-page.ts';

/** What the pages need of a service. */
interface Service {
  address: string;
  project: {
    userJwt(claims: { user_external_id: string }): string;
    call(method: string, path: string, body: unknown): Promise<{ status: number; body: { id: string } }>;
  };
}

interface Options {
  service: Service;
  browser: Browser;
  /** Waits until a broadcast is processed. */
  processed(call: Service['project']['call'], id: string): Promise<unknown>;
}

/** Pages with `<belfry-inbox>` in Chromium that show the inboxes of users. */
export interface ElementPages {
  site: Site;
  /** The name of a user that does not exist yet. */
  newUser(): string;
  /** What an inbox of the user needs. */
  propertiesOf(user: string): Pick<BelfryInbox, 'baseUrl' | 'token'>;
  /** Sends notifications, and waits until the last one is in the inbox. */
  send(user: string, ...broadcasts: object[]): Promise<void>;
  /** Opens a page with the inbox of a user, and waits until it is connected. */
  open(user: string, properties?: Partial<BelfryInbox>, options?: Parameters<Site['open']>[1]): Promise<Page>;
}

export async function startElementPages({ service, browser, processed }: Options): Promise<ElementPages> {
  const site = await startSite();
  const { address, project } = service;
  let users = 0;
  const propertiesOf = (user: string) => ({
    baseUrl: `${address}/v2`,
    token: project.userJwt({ user_external_id: user }),
  });
  return {
    ...{ site, propertiesOf },
    newUser() {
      users += 1;
      return `element-${users}`;
    },
    async send(user, ...broadcasts) {
      for (const one of broadcasts) {
        const given = { title: 'Hello', ...one, recipients: [{ external_id: user }] };
        const { status, body } = await project.call('POST', '/broadcasts', given);
        if (status !== 201) throw new Error(`the response to a broadcast was ${status}`);
        await processed(project.call, body.id); // the next one is above it
      }
    },
    async open(user, properties = {}, options = {}) {
      const page = await site.open(browser, options);
      await addInbox(page, { ...propertiesOf(user), ...properties });
      return page;
    },
  };
}

/** The titles of the notifications that a page shows. */
export const titles = (page: Page) => page.locator('.primary').allTextContents();

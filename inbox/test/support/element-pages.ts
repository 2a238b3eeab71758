import type { Browser, Page } from 'playwright-core';
import { expect } from 'vitest';
import { openChromium } from '../../../server/test/support/browser.ts';
import {
  processed,
  startTestService,
  type TestProject,
  type TestService,
} from '../../../server/test/support/service.ts';
import type { BelfryInbox } from '../../src/element/belfry-inbox.ts';
import { addInbox, type Site, startSite } from './inbox-page.ts';

/** A service, and pages with `<belfry-inbox>` in Chromium that show the inboxes of its users. */
export interface ElementPages {
  service: TestService;
  project: TestProject;
  browser: Browser;
  site: Site;
  /** The name of a user that does not exist yet. */
  newUser(): string;
  /** What an inbox of the user needs. */
  propertiesOf(user: string): Pick<BelfryInbox, 'baseUrl' | 'token'>;
  /** Sends notifications, and waits until the last one is in the inbox. */
  send(user: string, ...broadcasts: object[]): Promise<void>;
  /** Opens a page with the inbox of a user, and waits until it is connected. */
  open(user: string, properties?: Partial<BelfryInbox>, options?: Parameters<Site['open']>[1]): Promise<Page>;
  close(): Promise<void>;
}

export async function startElementPages(): Promise<ElementPages> {
  const [service, browser, site] = await Promise.all([startTestService(), openChromium(), startSite()]);
  const { project } = service;
  let users = 0;
  const propertiesOf = (user: string) => ({
    baseUrl: `${service.address}/v2`,
    token: project.userJwt({ user_external_id: user }),
  });
  return {
    ...{ service, project, browser, site, propertiesOf },
    newUser() {
      users += 1;
      return `element-${users}`;
    },
    async send(user, ...broadcasts) {
      for (const one of broadcasts) {
        const given = { title: 'Hello', ...one, recipients: [{ external_id: user }] };
        const { status, body } = await project.call('POST', '/broadcasts', given);
        expect(status).toBe(201);
        await processed(project.call, body.id); // the next one is above it
      }
    },
    async open(user, properties = {}, options = {}) {
      const page = await site.open(browser, options);
      await addInbox(page, { ...propertiesOf(user), ...properties });
      return page;
    },
    async close() {
      await Promise.all([service.stop(), browser.close(), site.close()]);
    },
  };
}

/** The titles of the notifications that a page shows. */
export const titles = (page: Page) => page.locator('.primary').allTextContents();

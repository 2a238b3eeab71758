import { expect } from 'vitest';
import { XSS_PAYLOADS } from './xss-payloads.ts';

/** Remembers in `ran` what a payload runs. */
export const WATCH = 'globalThis.ran = []; globalThis.alert = (x) => ran.push(x);';

/** Sends broadcasts with each payload to the user `ada`: in the title, the content and the actions. */
export async function sendPayloads(send: (body: object) => Promise<{ status: number }>): Promise<void> {
  for (const payload of XSS_PAYLOADS) {
    const body = {
      title: payload.slice(0, 200),
      content: payload,
      recipients: [{ external_id: 'ada' }],
      custom_attributes: { actions: [{ label: payload.slice(0, 100), url: 'javascript:alert(1)' }] },
    };
    expect((await send(body)).status).toBe(201);
  }
}

/** Runs in the page: scrolls to the end, and returns how many notifications are shown. */
export function scrollOn(): number {
  const root = document.querySelector('belfry-inbox')?.shadowRoot;
  const scroller = root?.querySelector('.scroller');
  scroller?.scrollTo(0, scroller.scrollHeight);
  return root?.querySelectorAll('.item').length ?? 0;
}

/** Runs in the page: uses all content as a user could, and returns what is left of it and what ran. */
export function useContent() {
  const root = document.querySelector('belfry-inbox')?.shadowRoot;
  const inContent = [...(root?.querySelectorAll<HTMLElement>('.content *') ?? [])];
  for (const one of inContent) {
    one.dispatchEvent(new Event('focus'));
    one.dispatchEvent(new Event('mouseover'));
    if (!one.matches('a[href^=http]')) one.click();
  }
  const links = [...(root?.querySelectorAll<HTMLAnchorElement>('a[href]') ?? [])];
  return {
    names: [...new Set(inContent.map(({ localName }) => localName))],
    attributes: [...new Set(inContent.flatMap((one) => one.getAttributeNames()))],
    protocols: [...new Set(links.map(({ protocol }) => protocol))],
    rels: [...new Set(links.map(({ rel }) => rel))],
    ran: (globalThis as unknown as { ran: unknown[] }).ran,
    url: location.href,
  };
}

/** Expects that nothing ran, and that only what is allowed is left. */
export function expectHarmless(found: ReturnType<typeof useContent>, url: string): void {
  expect(found.ran).toEqual([]);
  expect(found.protocols).toEqual(['http:']);
  expect(found.rels).toEqual(['noopener noreferrer']);
  const allowed = ['a', 'b', 'div', 'img', 'p', 'table', 'tbody', 'td', 'th', 'tr'];
  expect(found.names.filter((name) => !allowed.includes(name))).toEqual([]);
  const attributes = ['alt', 'href', 'loading', 'referrerpolicy', 'rel', 'src', 'target', 'title'];
  expect(found.attributes.filter((name) => !attributes.includes(name))).toEqual([]);
  expect(found.url).toBe(`${url}/`);
}

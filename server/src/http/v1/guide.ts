import { readFileSync } from 'node:fs';
import { Marked } from 'marked';
import { sendArticle } from '../page.ts';
import type { App } from '../route.ts';

/** The page to which every response of v1 links. */
export const GUIDE_PATH = '/docs/from-v1';

const FILE = new URL('../../../../docs/guides/from-v1.md', import.meta.url);

/** Serves the guide for moving from v1. */
export function guidePage({ fastify }: App): void {
  const marked = new Marked({
    renderer: {
      // Other pages of the documentation are not served.
      link({ tokens }) {
        return this.parser.parseInline(tokens);
      },
    },
  });
  let html: string | undefined;
  fastify.get(GUIDE_PATH, { schema: { hide: true } }, (_request, reply) => {
    html ??= marked.parse(readFileSync(FILE, 'utf8'), { async: false });
    return sendArticle(reply, { title: 'Moving from version 1', html });
  });
}

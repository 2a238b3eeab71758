import { readFileSync } from 'node:fs';
import type { FastifyInstance } from 'fastify';

/** Links to the icon in the head of a page. */
export const ICON_LINK = '<link rel="icon" href="/favicon.svg" type="image/svg+xml">';

// The last two are requested by browsers that cannot show an SVG as the icon of a page.
const ICONS = {
  'favicon.svg': 'image/svg+xml',
  'favicon.ico': 'image/x-icon',
  'apple-touch-icon.png': 'image/png',
};

/** Serves the icon of all pages. */
export function iconRoutes(fastify: FastifyInstance): void {
  for (const [name, type] of Object.entries(ICONS)) {
    const icon = readFileSync(new URL(`./icons/${name}`, import.meta.url));
    fastify.get(`/${name}`, { schema: { hide: true } }, (_request, reply) =>
      reply.header('content-type', type).header('cache-control', 'public, max-age=86400').send(icon),
    );
  }
}

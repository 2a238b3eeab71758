import { posix } from 'node:path';

/** The path of a file's page below the base: `/guides/channels/`. */
export function urlOf(file: string): string {
  const path = file
    .replace(/^docs\//, '')
    .replace(/(^|\/)(index|README)\.md$/, '$1')
    .replace(/\.md$/, '/');
  return `/${path}`;
}

// What a link to these files shows, below the base.
const REFERENCES: Record<string, string> = { 'openapi.json': 'api/', 'openapi-v1.json': 'v1/' };

/**
 * Returns the address of a link between files of the repository in the site: a page, the API reference, or a
 * copy of the file. `onFile` gets the paths of these files.
 */
export function siteLink(link: string, { from, base, isPage, onFile }: LinkContext): string {
  if (/^([a-z]+:|#|\/)/i.test(link)) return link;
  const [path = '', heading] = link.split('#');
  const file = posix.join(posix.dirname(from), decodeURI(path)).replace(/\/$/, '');
  const suffix = heading === undefined ? '' : `#${heading}`;
  if (isPage(file)) return `${base}${urlOf(file).slice(1)}${suffix}`;
  const reference = REFERENCES[file];
  if (reference !== undefined) return `${base}${reference}${suffix}`;
  onFile(file);
  return `${base}files/${file}`;
}

interface LinkContext {
  /** The file with the link. */
  from: string;
  base: string;
  /** Whether a file has a page. */
  isPage: (file: string) => boolean;
  onFile: (file: string) => void;
}

import type { FastifyInstance } from 'fastify';

/**
 * The parameters of paths that can be any text, with the patterns of their values. Only external ids and
 * addresses of users are such texts.
 */
const FREE_TEXT: Record<string, string> = {
  device_token: '.+',
  key: '.+',
  token_id: '.+',
  topic: '.+',
  user_id: '(?:external_id|email)(?::|%3A).+?|[^/]+',
};

interface Path {
  url: string;
  methods: Set<string>;
  /** Its odd groups are free texts. */
  pattern: RegExp;
}

/** The paths with free texts, by how they start. */
interface Families {
  starts: RegExp;
  /** By start, the most specific first. */
  paths: ReadonlyMap<string, readonly Path[]>;
}

/**
 * Published clients write the parameters of paths as they are: `/subscriptions/orders/1042` for the topic
 * `orders/1042`. A text that ends like a longer path of the API must be encoded.
 */
export class FreeTextPaths {
  readonly #paths = new Map<string, Path>();
  #families: Families | undefined;

  /** Watches the operations that are registered from now on. */
  watch(fastify: FastifyInstance): void {
    fastify.addHook('onRoute', ({ url, method, config }) => {
      if (config?.operationId === undefined) return;
      const path = this.#paths.get(url) ?? { url, methods: new Set(), pattern: patternOf(url) };
      for (const one of [method].flat()) path.methods.add(one);
      this.#paths.set(url, path);
      this.#families = undefined;
    });
  }

  /**
   * Encodes the slashes in the free texts of a request target, and each `%` that begins no valid escape.
   * Other targets are returned as they are.
   */
  encode(target: string, method = 'GET'): string {
    const end = target.search(/\/?(?:[?#]|$)/);
    const path = target.slice(0, end);
    this.#families ??= familiesOf([...this.#paths.values()]);
    const start = this.#families.starts.exec(path)?.[0];
    if (start === undefined || !/[/%]/.test(path.slice(start.length))) return target;
    // What belongs to a user is never a part of the user's id: a wrong method would delete another user.
    const isFor = ({ url, methods }: Path) =>
      !url.includes(':') || url.includes(':user_id/') || methods.has(method === 'HEAD' ? 'GET' : method);
    const paths = this.#families.paths.get(start) ?? [];
    const groups = match(path, paths.filter(isFor)) ?? match(path, paths);
    if (groups === undefined) return target;
    const encoded = groups.map((group, index) => (index % 2 === 0 ? group : encodeText(group)));
    return encoded.join('') + target.slice(end);
  }
}

function match(path: string, paths: readonly Path[]): string[] | undefined {
  for (const { pattern } of paths) {
    const found = pattern.exec(path);
    if (found !== null) return found.slice(1);
  }
  return undefined;
}

function familiesOf(paths: readonly Path[]): Families {
  const all = paths
    .filter(({ url }) => namesIn(url).some((name) => name in FREE_TEXT))
    .map(({ url }) => url.slice(0, url.indexOf(':')));
  const starts = [...new Set(all)].filter(
    (start, _index, every) => !every.some((other) => other !== start && start.startsWith(other)),
  );
  return {
    starts: new RegExp(`^(?:${starts.map(literal).join('|')})`),
    paths: new Map(starts.map((start) => [start, pathsBelow(start, paths)])),
  };
}

function pathsBelow(start: string, paths: readonly Path[]): Path[] {
  return paths
    .filter(({ url }) => url.startsWith(start))
    .toSorted((a, b) => fixedLength(b.url) - fixedLength(a.url));
}

const PARAMETER = /:(\w+)/g;

function namesIn(url: string): string[] {
  return [...url.matchAll(PARAMETER)].map(([, name = '']) => name);
}

function fixedLength(url: string): number {
  return url.replace(PARAMETER, '').length;
}

function patternOf(url: string): RegExp {
  const parts = url.split('/').map((part) => {
    if (!part.startsWith(':')) return literal(part);
    const freeText = FREE_TEXT[part.slice(1)];
    return freeText === undefined ? '[^/]+' : `)(${freeText})(`;
  });
  return new RegExp(`^(${parts.join('/')})$`, 's');
}

/** The pattern that matches a text as it is. */
function literal(text: string): string {
  return text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
}

const BYTE = '%[89ab][\\da-f]';
// What `decodeURIComponent` accepts: the escapes of the bytes of a character in UTF-8.
const ESCAPES = [
  '%[0-7][\\da-f]',
  `%(?:c[2-9a-f]|d[\\da-f])${BYTE}`,
  `%(?:e0%[ab][\\da-f]|ed%[89][\\da-f]|e[1-9a-cef]${BYTE})${BYTE}`,
  `%(?:f0%[9ab][\\da-f]|f[1-3]${BYTE}|f4%8[\\da-f])${BYTE}${BYTE}`,
];
const ESCAPED = new RegExp(`${ESCAPES.join('|')}|%`, 'gi');

function encodeText(text: string): string {
  return text.replaceAll('/', '%2F').replace(ESCAPED, (escaped) => (escaped === '%' ? '%25' : escaped));
}

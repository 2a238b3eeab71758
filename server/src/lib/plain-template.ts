import type { Template as LiquidTemplate, Output, Token } from 'liquidjs';
import type { LiquidLibrary } from './liquid.ts';
import { isPlainObject, memberOf } from './members.ts';

/** A text, or the path of a value. */
type Part = string | readonly string[];

// The library limits what templates make of longer values.
const MAX_CHARACTERS = 1_048_576;

/**
 * Returns a function that renders a template of texts and names alone, such as `Hi {{ user.first_name }}`;
 * undefined for others. It returns undefined if the library has to render the template: it reads something
 * else than texts, numbers and members of objects. The library takes ten times as long, for its generators,
 * and a broadcast may have a text for each of a thousand users. `hasEscape`: the engine has an
 * `outputEscape`.
 */
export function plainRendering(
  library: LiquidLibrary,
  nodes: readonly LiquidTemplate[],
  form: 'html' | 'text',
  hasEscape = form === 'html',
): ((data: object) => string | undefined) | undefined {
  const parts: Part[] = [];
  for (const node of nodes) {
    const part = node instanceof library.Output ? pathIn(library, node, hasEscape) : textIn(library, node);
    if (part === undefined) return undefined;
    parts.push(part);
  }
  return (data) => {
    try {
      return joined(parts, data, form);
    } catch {
      // Reading a member failed: the library fails as well, and says where.
      return undefined;
    }
  };
}

function joined(parts: readonly Part[], data: object, form: 'html' | 'text'): string | undefined {
  let text = '';
  for (const part of parts) {
    const value = typeof part === 'string' ? part : textAt(data, part);
    if (value === undefined) return undefined;
    text += typeof part === 'string' || form === 'text' ? value : escaped(value);
    if (text.length > MAX_CHARACTERS) return undefined;
  }
  return text;
}

function textIn({ TokenKind }: LiquidLibrary, { token }: LiquidTemplate): string | undefined {
  return token.kind === TokenKind.HTML ? (token as Token & { getContent(): string }).getContent() : undefined;
}

function pathIn({ TokenKind }: LiquidLibrary, { value }: Output, hasEscape: boolean): Part | undefined {
  const { initial, filters } = value;
  const [token, ...others] = initial.postfix;
  // If the engine escapes, the last filter does so, unless it is `raw`.
  const isBare = hasEscape ? filters.length === 1 && !filters[0]?.raw : filters.length === 0;
  if (!isBare || others.length > 0 || token?.kind !== TokenKind.PropertyAccess) return undefined;
  const { variable, props } = token as Token & { variable?: Token; props: readonly Token[] };
  if (variable !== undefined || props.some(({ kind }) => kind !== TokenKind.Word)) return undefined;
  const path = props.map((prop) => (prop as Token & { content: string }).content);
  return path.some((name) => OF_ALL_VALUES.has(name) || name in Object.prototype) ? undefined : path;
}

// In Liquid every value has these.
const OF_ALL_VALUES = new Set(['size', 'first', 'last']);

/** Returns the value as text; undefined if the library has to read it. */
function textAt(data: object, path: readonly string[]): string | undefined {
  let value: unknown = data;
  for (const name of path) {
    if (value === null || value === undefined) return '';
    if (!isPlainObject(value)) return undefined;
    value = memberOf(value, name);
  }
  if (value === null || value === undefined) return '';
  if (typeof value === 'string') return value;
  return typeof value === 'number' || typeof value === 'boolean' ? String(value) : undefined;
}

const ESCAPED: Record<string, string> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&#34;',
  "'": '&#39;',
};

function escaped(text: string): string {
  return /[&<>"']/.test(text) ? text.replace(/[&<>"']/g, (character) => ESCAPED[character] ?? '') : text;
}

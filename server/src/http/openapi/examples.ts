import { exampleId, exampleTime } from '../../contract/common.ts';
import type { Schema } from './schemas.ts';

/**
 * An example of a schema: its own, or one that is made from the examples of its members. Leaves out optional
 * members without an example. `undefined` if a required member has none.
 */
export function exampleOf(schema: Schema): unknown {
  if (schema.examples?.[0] !== undefined) return schema.examples[0];
  if (schema.const !== undefined) return schema.const;
  if (schema.enum !== undefined) return schema.enum[0];
  if (schema.default !== undefined) return schema.default;
  const types = [schema.type].flat();
  if (types.includes('object') && schema.properties !== undefined) return exampleObject(schema);
  if (types.includes('array')) {
    const item = exampleOf(schema.items ?? {});
    return item === undefined ? [] : [item];
  }
  if (types.includes('string')) return exampleText(schema);
  if (types.includes('null')) return null;
  if (types.includes('boolean')) return true;
  if (types.includes('integer') || types.includes('number')) return schema.minimum ?? 1;
  if (types.includes('object')) return {};
  return schema.anyOf?.map(exampleOf).find((example) => example !== undefined);
}

function exampleObject({ properties = {}, required = [] }: Schema): unknown {
  const members: [string, unknown][] = [];
  for (const [name, member] of Object.entries(properties)) {
    // Only in requests: members that a response has, and a request may repeat.
    if (member.readOnly) continue;
    const example = exampleOf(member);
    if (example !== undefined) members.push([name, example]);
    else if (required.includes(name)) return undefined;
  }
  return Object.fromEntries(members);
}

const TEXTS: Record<string, string> = {
  uuid: exampleId,
  'date-time': exampleTime,
  email: 'ada@example.com',
  uri: 'https://example.com',
};

function exampleText({ format = '', pattern, minLength = 0, type }: Schema): string | null | undefined {
  const text = TEXTS[format] ?? (pattern === undefined && minLength <= 1 ? 'text' : undefined);
  return text ?? ([type].flat().includes('null') ? null : undefined);
}

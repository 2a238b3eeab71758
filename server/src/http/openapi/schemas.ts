import { isDeepStrictEqual } from 'node:util';

/** The part of a JSON Schema that matters here. */
export interface Schema {
  title?: string;
  description?: string;
  /** The general description of the title, if `description` is for one place. */
  $comment?: string;
  $ref?: string;
  type?: string | string[];
  enum?: unknown[];
  examples?: unknown[];
  readOnly?: boolean;
  properties?: Record<string, Schema>;
  required?: string[];
  const?: unknown;
  default?: unknown;
  format?: string;
  pattern?: string;
  minLength?: number;
  minimum?: number;
  additionalProperties?: boolean | Schema;
  items?: Schema;
  anyOf?: Schema[];
  allOf?: Schema[];
}

/**
 * Replaces every schema that has a title by a reference, and adds its definition to `definitions`. Throws if
 * two schemas have the same title and differ.
 */
export function referByTitle(schema: Schema, definitions: Record<string, Schema>): Schema {
  const refer = (part: Schema) => referByTitle(part, definitions);
  const referAll = (parts: Record<string, Schema>) =>
    Object.fromEntries(Object.entries(parts).map(([name, part]) => [name, refer(part)]));
  const { properties, additionalProperties, items, anyOf, allOf } = schema;
  return referTo(definitions, {
    ...schema,
    ...(properties && { properties: referAll(properties) }),
    ...(typeof additionalProperties === 'object' && { additionalProperties: refer(additionalProperties) }),
    ...(items && { items: refer(items) }),
    ...(anyOf && { anyOf: anyOf.map(refer) }),
    ...(allOf && { allOf: allOf.map(refer) }),
  });
}

/** A reference to the definition of a schema, with the members that apply only at this place. */
function referTo(definitions: Record<string, Schema>, schema: Schema): Schema {
  const { title, $comment, readOnly, examples, ...rest } = schema;
  if (title === undefined) return schema;
  const types = [schema.type ?? []].flat();
  const isNullable = types.includes('null');
  const definition: Schema = { title, ...rest };
  if ($comment !== undefined) definition.description = $comment;
  if (definition.description === undefined || $comment === '') delete definition.description;
  if (isNullable) {
    const [type = 'object'] = types.filter((one) => one !== 'null');
    definition.type = type;
    if (definition.enum !== undefined) definition.enum = definition.enum.filter((one) => one !== null);
    const { anyOf } = definition;
    if (anyOf !== undefined) definition.anyOf = anyOf.filter((one) => one.type !== 'null');
  }
  const { examples: shown, ...known } = definitions[title] ?? definition;
  if (!isDeepStrictEqual(known, definition)) throw new Error(`two different schemas have the title ${title}`);
  definitions[title] = { ...definition, ...((shown ?? examples) && { examples: shown ?? examples }) };

  const reference = { $ref: `#/components/schemas/${title}` };
  const here = {
    ...($comment !== undefined && schema.description !== undefined && { description: schema.description }),
    ...(readOnly !== undefined && { readOnly }),
  };
  if (isNullable) return { ...here, anyOf: [reference, { type: 'null' }] };
  // The contract's dialect of JSON Schema does not allow members beside $ref.
  return Object.keys(here).length === 0 ? reference : { ...here, allOf: [reference] };
}

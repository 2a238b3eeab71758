import type { Schema } from './document.ts';
import { wordsOfMember } from './words.ts';

/** Where a type stands, and what is called by a name there. */
export interface Place {
  indent: string;
  /** The words of the type and of the members that lead here. */
  words: readonly string[];
  nameOf: (schema: Schema, words: readonly string[]) => string | undefined;
}

/**
 * A schema as a TypeScript type in full: what stands right of `type Name =`. Without a place it has neither
 * names nor comments, so that two schemas of one form have one text.
 */
export function printForm(schema: Schema, place?: Place): string {
  if (schema.$ref !== undefined) return schema.$ref.replace('#/components/schemas/', '');
  if (schema.const !== undefined) return literal(schema.const);
  if (schema.enum !== undefined) return unionOf(schema.enum.map((value) => literal(value)));
  const alternatives = schema.anyOf ?? schema.oneOf;
  if (alternatives !== undefined && schema.properties === undefined)
    return unionOf(alternatives.map((part) => printType(part, place)));
  if (schema.allOf !== undefined)
    return schema.allOf.map((part) => parenthesized(printType(part, place))).join(' & ');
  const types = [schema.type ?? (schema.properties === undefined ? [] : 'object')].flat();
  if (types.length === 0) return 'unknown';
  if (types.length === 1) return printPlain(types.join(), schema, place);
  // Each by itself: an object that may also be `null` has the name that the object has elsewhere.
  return unionOf(types.map((type) => printType({ ...schema, type }, place)));
}

/** A comment of one line or several, with the line break after it. */
export function printComment(lines: readonly (string | undefined)[], indent: string): string {
  const text = lines
    .filter((line) => line !== undefined)
    .flatMap((line) => line.replaceAll('*/', '*\\/').split('\n'));
  if (text.length === 0) return '';
  if (text.length === 1) return `${indent}/** ${text[0]} */\n`;
  return `${indent}/**\n${text.map((line) => `${indent} * ${line}`.trimEnd()).join('\n')}\n${indent} */\n`;
}

/** The name of a schema at a place, or its form. */
function printType(schema: Schema, place: Place | undefined): string {
  return place?.nameOf(schema, place.words) ?? printForm(schema, place);
}

function printPlain(type: string, schema: Schema, place: Place | undefined): string {
  if (type === 'integer') return 'number';
  if (type === 'array') return `${parenthesized(printType(schema.items ?? {}, place))}[]`;
  if (type === 'object') return printObject(schema, place);
  return type;
}

function printObject(schema: Schema, place: Place | undefined): string {
  const { properties = {}, patternProperties = {}, additionalProperties } = schema;
  const members = Object.entries(properties);
  const others = Object.values(patternProperties);
  const isDescribed = members.length + others.length > 0;
  if (typeof additionalProperties === 'object') others.push(additionalProperties);
  // Objects of which nothing is said hold anything; those with members are what the server answers today, and
  // no more is promised.
  else if (additionalProperties === true || (additionalProperties !== false && !isDescribed)) others.push({});
  const values = unionOf(others.map((other) => printType(other, place)));
  if (members.length === 0) return `Record<string, ${others.length === 0 ? 'never' : values}>`;
  const printed = members.map((member) => printMember(member, schema, place));
  const parts = [`{\n${printed.join('')}${place?.indent ?? ''}}`];
  if (others.length > 0) parts.push(`Record<string, ${values}>`);
  const choice = requiredChoice(schema, place);
  if (choice !== undefined) parts.push(choice);
  return parts.join(' & ');
}

function printMember(
  [key, member]: [string, Schema],
  { required = [] }: Schema,
  outer: Place | undefined,
): string {
  const indent = `${outer?.indent ?? ''}  `;
  const place = outer && {
    ...outer,
    indent,
    words: [...outer.words, ...wordsOfMember(key, member.items !== undefined)],
  };
  const type = printType(member, place);
  const isRequired = required.includes(key);
  const fallback = member.default === undefined ? undefined : `@default ${JSON.stringify(member.default)}`;
  const deprecated = member.deprecated === true ? '@deprecated' : undefined;
  const comment = place === undefined ? '' : printComment([member.description, fallback, deprecated], indent);
  // With exactOptionalPropertyTypes a caller could not pass on what it may not have, without `undefined`.
  const whole = isRequired || type === 'unknown' ? type : `${type} | undefined`;
  return `${comment}${indent}${property(key)}${isRequired ? '' : '?'}: ${whole};\n`;
}

/**
 * `anyOf` beside `properties`, where it says which of the members one needs:
 * `{ external_id: string } | { email: string }`.
 */
function requiredChoice(schema: Schema, place: Place | undefined): string | undefined {
  const alternatives = schema.anyOf ?? schema.oneOf ?? [];
  const choices = alternatives
    .filter((choice) => (choice.required ?? []).length > 0)
    .map(({ required = [], properties = {} }) => {
      const members = required.map((key) => {
        const type = printType(schema.properties?.[key] ?? {}, place);
        const refusesNull = properties[key]?.not?.type === 'null';
        return `${property(key)}: ${refusesNull ? type.replace(/ \| null$/, '') : type}`;
      });
      return `{ ${members.join('; ')} }`;
    });
  return choices.length > 1 && choices.length === alternatives.length
    ? `(${choices.join(' | ')})`
    : undefined;
}

function unionOf(types: readonly string[]): string {
  const unique = [...new Set(types)];
  if (unique.includes('unknown')) return 'unknown';
  // `null` last, as everybody writes it.
  const sorted = [...unique.filter((type) => type !== 'null'), ...unique.filter((type) => type === 'null')];
  return sorted
    .map((type) => (sorted.length > 1 && type.includes(' & ') ? parenthesized(type) : type))
    .join(' | ');
}

/** In parentheses where a `|` or `&` would otherwise reach for what comes next. */
function parenthesized(type: string): string {
  let depth = 0;
  for (const character of type) {
    if ('{(<['.includes(character)) depth += 1;
    else if ('})>]'.includes(character)) depth -= 1;
    else if (depth === 0 && '|&'.includes(character)) return `(${type})`;
  }
  return type;
}

function literal(value: unknown): string {
  return typeof value === 'string' ? `'${value.replaceAll(/['\\]/g, '\\$&')}'` : JSON.stringify(value);
}

function property(key: string): string {
  return /^[A-Za-z_$][\w$]*$/.test(key) ? key : literal(key);
}

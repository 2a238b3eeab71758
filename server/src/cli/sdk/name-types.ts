import type { ApiDocument, Schema } from './document.ts';
import type { Operation } from './operations.ts';
import { printForm } from './print-type.ts';
import { commonWords, pascalCase, wordsOf, wordsOfMember } from './words.ts';

/** The types of the SDK. */
export interface NamedTypes {
  /** In the order in which they are to be declared. */
  declared: NamedType[];
  /** What a record, a body, a reply or a query is called: its name, or the type itself where it has none. */
  print(schema: Schema): string;
  /** The name of what is found within a type at this place. */
  nameWithin(schema: Schema, place: readonly string[]): string | undefined;
}

interface NamedType {
  name: string;
  words: string[];
  schema: Schema;
}

// How deep within a record or body objects have names of their own: `BroadcastOverridesChannels`. Further in
// they stand in place.
const NAMED_DEPTH = 2;
// Says what a type is for, not what it is.
const GENERIC = new Set(['config', 'body']);

/**
 * Names the records first, then what is in them, then what requests take and answer. A name says where a type
 * comes from, so two of one form share one only where it is true of both.
 */
export function nameTypes(document: ApiDocument, operations: readonly Operation[]): NamedTypes {
  const names = new Names();
  for (const [name, schema] of Object.entries(document.components?.schemas ?? {}))
    names.declared.push({ name, words: wordsOf(name), schema });
  for (const operation of operations) {
    const record = recordOf(operation);
    if (record !== undefined) names.declare(operation.entity, record);
  }
  for (const { words, schema } of names.declared.slice()) names.declareWithin(words, schema);
  for (const { id, entity, body } of operations) {
    if (body === undefined || names.reuse(entity, body.schema)) continue;
    const words = [...wordsOf(id), 'body'];
    names.declare(words, body.schema);
    names.declareWithin(words, body.schema);
  }
  names.share(
    operations.flatMap(({ id, entity, reply }) =>
      reply.kind === 'json' && !names.reuse(entity, reply.schema)
        ? { words: [...wordsOf(id), 'reply'], schema: reply.schema }
        : [],
    ),
  );
  names.share(
    operations.flatMap(({ id, query }) =>
      query === undefined ? [] : { words: [...wordsOf(id), 'query'], schema: query },
    ),
  );
  return names;
}

/** What a list has, or what is got by its id. */
function recordOf({ reply, method }: Operation): Schema | undefined {
  if (reply.kind === 'page') return reply.item;
  return reply.kind === 'json' && method === 'get' ? reply.schema : undefined;
}

class Names implements NamedTypes {
  readonly declared: NamedType[] = [];
  /** What the parts of operations are called. */
  readonly #given = new Map<Schema, string>();
  readonly #byForm = new Map<string, NamedType[]>();
  readonly #forms = new WeakMap<Schema, string>();

  print(schema: Schema): string {
    return (
      this.#given.get(schema) ??
      printForm(schema, { indent: '', words: [], nameOf: (part, place) => this.nameWithin(part, place) })
    );
  }

  nameWithin(schema: Schema, place: readonly string[]): string | undefined {
    if (!deservesName(schema)) return undefined;
    const isHere = ({ words }: NamedType) =>
      words.at(-1) === place.at(-1) && words.every((word) => GENERIC.has(word) || place.includes(word));
    return this.#ofForm(schema).find(isHere)?.name;
  }

  /** Gives a name, unless it means something else already. */
  declare(words: string[], schema: Schema): void {
    const name = pascalCase(words);
    if (!deservesName(schema)) return;
    const taken = this.declared.find((other) => other.name === name);
    if (taken === undefined) {
      const type = { name, words, schema };
      this.declared.push(type);
      this.#byForm.set(this.#form(schema), [...this.#ofForm(schema), type]);
    } else if (this.#form(taken.schema) !== this.#form(schema)) return;
    this.#given.set(schema, name);
  }

  /**
   * Names the objects that are members of an object, and theirs: `status` of a `Broadcast` is a
   * `BroadcastStatus`.
   */
  declareWithin(words: readonly string[], schema: Schema, depth = NAMED_DEPTH): void {
    if (depth === 0) return;
    for (const [key, member] of Object.entries(schema.properties ?? {})) {
      const object = objectOf(member.items ?? member);
      if (object === undefined) continue;
      const place = [...words, ...wordsOfMember(key, member.items !== undefined)];
      if (this.nameWithin(object, place) !== undefined) continue;
      this.declare(place, object);
      this.declareWithin(place, object, depth - 1);
    }
  }

  /**
   * Calls a body or reply by the name of a type of this form that is about the same thing. Answers whether
   * there is one.
   */
  reuse(entity: readonly string[], schema: Schema): boolean {
    const same = this.#ofForm(schema).find(({ words }) => entity.every((word) => words.includes(word)));
    if (same !== undefined) this.#given.set(schema, same.name);
    return same !== undefined;
  }

  /** Gives those of one form one name: what the words of their own names have in common. */
  share(wishes: readonly { words: string[]; schema: Schema }[]): void {
    for (const same of Map.groupBy(wishes, ({ schema }) => this.#form(schema)).values()) {
      const [first] = same as [(typeof same)[0], ...typeof same];
      const common = commonWords(same.map(({ words }) => words));
      const isFree = this.declared.every(({ name }) => name !== pascalCase(common));
      // One word would be the kind of thing alone: "Query".
      const words = common.length > 1 && isFree ? common : first.words;
      for (const { schema } of same) this.declare(words, schema);
    }
  }

  #ofForm(schema: Schema): NamedType[] {
    return this.#byForm.get(this.#form(schema)) ?? [];
  }

  #form(schema: Schema): string {
    const known = this.#forms.get(schema) ?? printForm(schema);
    this.#forms.set(schema, known);
    return known;
  }
}

function isObject({ properties, type }: Schema): boolean {
  return Object.keys(properties ?? {}).length > 0 && [type ?? 'object'].flat().includes('object');
}

/** The object or the choice of objects that a member is; `null` belongs to the member. */
function objectOf(schema: Schema): Schema | undefined {
  if (isObject(schema)) return Array.isArray(schema.type) ? { ...schema, type: 'object' } : schema;
  const alternatives = schema.anyOf ?? schema.oneOf ?? [];
  const objects = alternatives.filter(isObject);
  return objects.length === alternatives.length && objects.length > 1 ? schema : objects[0];
}

/** `{}` and words say as much by themselves as any name would. */
function deservesName(schema: Schema): boolean {
  return isObject(schema) || [schema.anyOf, schema.oneOf, schema.allOf].some((parts) => parts !== undefined);
}

import fc from 'fast-check';
import { resolveReference, type Schema } from './operations.ts';

type Json = null | boolean | number | string | Json[] | { [key: string]: Json };

/** Generates values that a schema of the description allows, odd ones too. */
export function valuesOf(document: Record<string, unknown>, schema: Schema): fc.Arbitrary<Json> {
  const of = (one: Schema): fc.Arbitrary<Json> => {
    if (one.$ref !== undefined) return of(resolveReference(document, one.$ref) as Schema);
    if (one.allOf?.[0] !== undefined) return of(one.allOf[0]); // a reference with a description of its own
    if (one.const !== undefined) return fc.constant(one.const as Json);
    if (one.enum !== undefined) return fc.constantFrom(...(one.enum as Json[]));
    if (one.type === undefined && one.anyOf !== undefined) return fc.oneof(...one.anyOf.map(of));
    if (one.type === undefined && one.properties === undefined) return anything;
    const types = Array.isArray(one.type) ? one.type : [one.type ?? 'object'];
    return fc.oneof(...types.map((type) => ofType(type, one)));
  };

  function ofType(type: string, one: Schema): fc.Arbitrary<Json> {
    switch (type) {
      case 'null':
        return fc.constant(null);
      case 'boolean':
        return fc.boolean();
      case 'integer':
        return fc.integer({ min: one.minimum ?? -5, max: Math.min(one.maximum ?? 1_000, 100_000) });
      case 'number':
        return fc.double({ min: one.minimum ?? -5, max: one.maximum ?? 5, noNaN: true });
      case 'string':
        return stringsOf(one);
      case 'array':
        return fc.array(of(one.items ?? {}), {
          minLength: one.minItems ?? 0,
          maxLength: Math.max(one.minItems ?? 0, Math.min(one.maxItems ?? 4, 4)),
        });
      default:
        return objectsOf(one);
    }
  }

  function objectsOf(one: Schema): fc.Arbitrary<Json> {
    const members = Object.entries(one.properties ?? {});
    const more = one.additionalProperties;
    const free =
      more === undefined || more === false
        ? fc.constant<[string, Json][]>([])
        : fc.array(fc.tuple(names, more === true ? anything : of(more)), { maxLength: 4 });
    // Choose one of the alternatives, and include what it requires.
    const branches = one.anyOf ?? [{}];
    return fc.constantFrom(...branches).chain((branch) => {
      const needed = new Set([...(one.required ?? []), ...(branch.required ?? [])]);
      const parts = members.map(([name, member]) => {
        const values = branch.required?.includes(name)
          ? of(member).filter((value) => value !== null)
          : of(member);
        return fc.tuple(
          fc.constant(name),
          needed.has(name) ? values : fc.option(values, { nil: undefined, freq: 2 }),
        );
      });
      return fc.tuple(fc.tuple(...parts), free).map(([given, added]) => {
        const entries = [...added, ...given].filter(
          (entry): entry is [string, Json] => entry[1] !== undefined,
        );
        return Object.fromEntries(entries);
      });
    });
  }

  return of(schema);
}

/** The same values with one change somewhere: most of them are invalid then, but not all. */
export function brokenValuesOf(document: Record<string, unknown>, schema: Schema): fc.Arbitrary<unknown> {
  return fc
    .tuple(
      valuesOf(document, schema),
      fc.nat(),
      fc.constantFrom<Change>('replace', 'remove', 'add', 'lengthen'),
      anything,
    )
    .map(([value, at, change, other]) => changed(value, at, change, other));
}

type Change = 'replace' | 'remove' | 'add' | 'lengthen';

function changed(value: Json, at: number, change: Change, other: Json): unknown {
  const positions: { holder: Record<string, Json>; key: string }[] = [];
  const root: Record<string, Json> = { body: structuredClone(value) };
  const visit = (holder: Record<string, Json>, key: string): void => {
    positions.push({ holder, key });
    const current = holder[key];
    if (typeof current !== 'object' || current === null) return;
    for (const member of Object.keys(current)) visit(current as Record<string, Json>, member);
  };
  visit(root, 'body');
  const { holder, key } = positions[at % positions.length] as { holder: Record<string, Json>; key: string };
  const current = holder[key];
  if (change === 'remove' && holder !== root) Reflect.deleteProperty(holder, key);
  else if (change === 'lengthen' && typeof current === 'string')
    holder[key] = current.repeat(3) + 'x'.repeat(2_100);
  else if (change === 'add' && typeof current === 'object' && current !== null && !Array.isArray(current))
    Object.defineProperty(current, 'unknown_member', { value: other, enumerable: true });
  else holder[key] = other;
  return root.body;
}

/** Texts that often cause bugs: other scripts, emoji, NUL, halves of surrogate pairs, quotes and markup. */
const texts = fc.oneof(
  { weight: 4, arbitrary: fc.string({ unit: 'grapheme', maxLength: 40 }) },
  { weight: 1, arbitrary: fc.string({ unit: 'binary', maxLength: 40 }) },
  {
    weight: 2,
    arbitrary: fc.constantFrom(
      '',
      '\0',
      '\ud800',
      'a\udc00b',
      '\u202eright to left',
      '👩‍👩‍👧‍👦',
      "'; drop table users; --",
      '<script>alert(1)</script>',
      '{{ user.email }}',
      `$\{jndi:ldap://127.0.0.1/a}`,
      '../../etc/passwd',
      'a\r\nBcc: b@example.com',
      '%00',
      'null',
    ),
  },
);

const names = fc.oneof(
  fc.string({ unit: 'grapheme', minLength: 1, maxLength: 12 }),
  fc.constantFrom('__proto__', 'constructor', 'toString', '', '$where', 'a.b'),
);

const anything = fc.jsonValue({ maxDepth: 2 }) as fc.Arbitrary<Json>;

function stringsOf({
  pattern,
  format,
  minLength = 0,
  maxLength = 60,
  examples,
}: Schema): fc.Arbitrary<string> {
  const fits = (text: string) => {
    const { length } = [...text];
    return length >= minLength && length <= maxLength;
  };
  if (pattern !== undefined) {
    const matching = fc.stringMatching(new RegExp(pattern), { maxLength: Math.min(maxLength, 300) });
    return matching.map((text) => text.padEnd(minLength, text === '' ? 'a' : text)).filter(fits);
  }
  const formatted = format === undefined ? undefined : FORMATS[format];
  if (formatted !== undefined) return formatted.filter(fits);
  const plain = (
    format === 'text' ? texts.filter((text) => text.isWellFormed() && !text.includes('\0')) : texts
  )
    .map((text) => ([...text].length < minLength ? text.padEnd(minLength + 4, 'q3ZtV9cKp1mXw7Rb') : text))
    .map((text) => [...text].slice(0, maxLength).join(''));
  const given = (examples ?? []).filter((example): example is string => typeof example === 'string');
  return given.length === 0 ? plain.filter(fits) : fc.oneof(plain.filter(fits), fc.constantFrom(...given));
}

const ids = fc.uuid({ version: 7 });
const FORMATS: Record<string, fc.Arbitrary<string>> = {
  uuid: fc.oneof(
    ids,
    fc.uuid(),
    ids.map((id) => id.toUpperCase()),
  ),
  'user-reference': fc.oneof(
    ids,
    fc.nat(20).map((number) => `external_id:${number}`),
    fc.nat(20).map((number) => `email:Person${number}@Example.com`),
  ),
  cursor: fc.oneof(ids, fc.constant('')),
  email: fc.oneof(
    fc.emailAddress(),
    fc.nat(20).map((number) => `Person${number}@Example.com`),
  ),
  locale: fc.constantFrom('de', 'EN-gb', 'pt-BR', 'zh-hant-tw'),
  uri: fc.webUrl({ withQueryParameters: true }),
  'date-time': fc
    .date({ min: new Date(0), max: new Date('2100-01-01'), noInvalidDate: true })
    .map((date) => date.toISOString()),
};

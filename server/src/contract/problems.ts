import type { ErrorObject } from 'ajv';

export type Located = Pick<
  ErrorObject,
  'keyword' | 'instancePath' | 'schemaPath' | 'params' | 'parentSchema' | 'message' | 'propertyName' | 'data'
>;

// A request can be wrong in a thousand places. A hundred messages say enough, and keep the response small.
export const MAX_MESSAGES = 100;
/** The most errors that are read. One message can stand for several errors of the branches of a union. */
export const MAX_ERRORS = 5_000;

/**
 * Turns the errors of the validator into sentences: `Param 'recipients.0.email' is missing`. In a `rendered`
 * value, they say where a template made an empty text of a missing value. A union is one
 * problem, not one for each of its branches. A schema can have its own words as `x-problem`: `needs an
 * external_id or an email`. If each branch lacks a member, `x-missing` names the one that is reported.
 */
export function problemsOf(errors: readonly Located[], { rendered = false } = {}): string[] {
  const sentences = new Set<string>();
  const read = errors.slice(0, MAX_ERRORS).filter(({ keyword }) => keyword !== 'propertyNames');
  for (const error of withoutUnions(withoutBranches(read)))
    sentences.add(rendered && isEmpty(error) ? `${sentence(error)}, not an empty text` : sentence(error));
  const messages = [...sentences];
  if (messages.length <= MAX_MESSAGES) return messages;
  const more = errors.length > MAX_ERRORS ? 'many' : messages.length - MAX_MESSAGES;
  return [...messages.slice(0, MAX_MESSAGES), `… and ${more} more problems`];
}

/** Whether a text without characters is of the wrong type. */
function isEmpty({ keyword, data }: Located): boolean {
  return keyword === 'type' && data === '';
}

/** Names the fields of a value that is this member of the request: `Param 'user.email' is missing`. */
export function problemsWithin(member: string | undefined, problems: readonly string[]): string[] {
  if (member === undefined) return [...problems];
  return problems.map((one) =>
    one.replace("Param '", `Param '${member}.`).replace(`'${member}.(root)'`, `'${member}'`),
  );
}

/** Replaces the errors of the branches of a union by those of the branch that was probably meant. */
function withoutBranches(errors: readonly Located[]): Located[] {
  const kept: Located[] = [];
  for (const error of errors) {
    if (error.keyword !== 'anyOf' && error.keyword !== 'oneOf') {
      kept.push(error);
      continue;
    }
    // The branches' errors come right before the union's own.
    const branches: Located[] = [];
    while (kept.length > 0 && isWithin(kept.at(-1), error)) branches.unshift(...kept.splice(-1));
    kept.push(...meant(branches, error));
  }
  return kept;
}

/** Keeps one error for a value that should be an object and is not: the others follow from it. */
function withoutUnions(errors: readonly Located[]): Located[] {
  const wrongKind = new Set(errors.filter(isNoObject).map(placeOf));
  return wrongKind.size === 0
    ? [...errors]
    : errors.filter((error) => isNoObject(error) || !wrongKind.has(placeOf(error)));
}

function isNoObject({ keyword, parentSchema }: Located): boolean {
  return keyword === 'type' && [parentSchema?.type].flat().includes('object');
}

/** Identifies a value and the schema that it was checked against. */
function placeOf({ instancePath, schemaPath }: Located): string {
  return `${instancePath} ${schemaPath.slice(0, schemaPath.lastIndexOf('/'))}`;
}

function isWithin(inner: Located | undefined, union: Located): boolean {
  return (
    inner?.schemaPath.startsWith(`${union.schemaPath}/`) === true &&
    inner.instancePath.startsWith(union.instancePath)
  );
}

function meant(errors: Located[], union: Located): Located[] {
  if (typeof ownWords(union) === 'string') return [union];
  const needed = errors.filter(
    (error) => error.keyword === 'required' && error.instancePath === union.instancePath,
  );
  if (needed.length > 0 && needed.length === errors.length) {
    const missingProperty: unknown = union.parentSchema?.['x-missing'];
    if (typeof missingProperty === 'string')
      return [{ ...union, keyword: 'required', params: { missingProperty } }];
    const params = { needed: [...new Set(needed.map((error) => String(error.params.missingProperty)))] };
    return [{ ...union, keyword: 'required-any', params }];
  }
  const branches = Map.groupBy(
    errors,
    (error) => error.schemaPath.slice(union.schemaPath.length + 1).split('/', 1)[0],
  );
  // A branch of another type was not meant.
  const fitting = [...branches.values()].filter(
    (branch) => !branch.some((error) => error.instancePath === union.instancePath && isOtherKind(error)),
  );
  if (fitting.length === 1) return fitting[0] ?? [union];
  const types = errors.filter(
    (error) => error.instancePath === union.instancePath && error.keyword === 'type',
  );
  if (
    fitting.length === 0 &&
    [...branches.values()].every((branch) => types.some((one) => branch.includes(one)))
  ) {
    return [
      { ...union, keyword: 'type', params: { type: [...new Set(types.flatMap((error) => typesOf(error)))] } },
    ];
  }
  // The closest one; the first of those that are equally close, because the usual form is put first.
  const [closest] = fitting.sort((a, b) => a.length - b.length);
  return closest ?? [union];
}

function isOtherKind({ keyword }: Located): boolean {
  return keyword === 'type' || keyword === 'const' || keyword === 'enum' || keyword === 'not';
}

function typesOf({ params }: Located): string[] {
  const type: unknown = params.type;
  return Array.isArray(type) ? type.map(String) : String(type).split(',');
}

function ownWords({ parentSchema }: Located): unknown {
  return parentSchema?.['x-problem'];
}

function sentence(error: Located): string {
  const { keyword, params } = error;
  if (keyword === 'required') return `Param '${nameOf(error, String(params.missingProperty))}' is missing`;
  if (keyword === 'additionalProperties') {
    return refusedKey(error, String(params.additionalProperty));
  }
  if (error.propertyName !== undefined)
    return `${refusedKey(error, error.propertyName)}, which ${complaint(error)}`;
  const words = isNoObject(error) ? undefined : ownWords(error);
  return `Param '${nameOf(error)}' ${typeof words === 'string' ? words : complaint(error)}`;
}

function refusedKey(error: Located, key: string): string {
  return `Param '${nameOf(error)}' doesn't allow key: ${shorten(key)}`;
}

function complaint(error: Located): string {
  const { keyword, params, message } = error;
  const limit = Number(params.limit);
  switch (keyword) {
    case 'type':
      return `must be ${typesOf(error).map(article).join(' or ')}`;
    case 'required-any':
      return `must have ${(params.needed as string[]).join(' or ')}`;
    case 'minLength':
      return `must have at least ${count(limit, 'character')}`;
    case 'maxLength':
      return `must have at most ${count(limit, 'character')}`;
    case 'minItems':
      return `must have at least ${count(limit, 'item')}`;
    case 'maxItems':
      return `must have at most ${count(limit, 'item')}`;
    case 'minProperties':
      return `must have at least ${count(limit, 'key')}`;
    case 'maxProperties':
      return `must have at most ${count(limit, 'key')}`;
    case 'minimum':
      return `must be ${limit} or more`;
    case 'maximum':
      return `must be ${limit} or less`;
    case 'enum':
      return `must be one of: ${(params.allowedValues as unknown[]).map(String).join(', ')}`;
    case 'const':
      return `must be ${JSON.stringify(params.allowedValue)}`;
    case 'pattern':
      return `must match the pattern ${params.pattern}`;
    case 'format':
      if (params.format === 'uri' && /\s/.test(String(error.data)))
        return 'must be an absolute URI without spaces: encode them as %20';
      return FORMATS[String(params.format)] ?? `must be a valid ${params.format}`;
    case 'uniqueItems':
      return `must not hold the same item twice (${params.j} and ${params.i})`;
    case 'anyOf':
    case 'oneOf':
      return 'has none of the allowed forms';
    default:
      return message ?? 'is not valid';
  }
}

export const TEXT_PROBLEM = 'must not contain the character U+0000 or half of a surrogate pair';

const FORMATS: Record<string, string> = {
  uuid: 'must be a UUID',
  cursor: 'is not the id of a record',
  email: 'must be an e-mail address',
  'external-id': 'must not be blank, and must not contain the character U+0000 or half of a surrogate pair',
  locale: 'must be a BCP 47 language tag, such as de or pt-BR',
  uri: 'must be an absolute URI',
  'date-time': 'must be a date and time as in 2026-01-31T12:00:00Z',
  text: TEXT_PROBLEM,
};

const ARTICLES: Record<string, string> = {
  array: 'an array',
  object: 'an object',
  integer: 'an integer',
  null: 'null',
};

function article(type: string): string {
  return ARTICLES[type] ?? `a ${type}`;
}

function count(number: number, noun: string): string {
  return `${number} ${noun}${number === 1 ? '' : 's'}`;
}

/** `/recipients/0/email` as `recipients.0.email`. */
function nameOf({ instancePath }: Located, member?: string): string {
  const parts = instancePath
    .split('/')
    .slice(1)
    .map((part) => part.replaceAll('~1', '/').replaceAll('~0', '~'));
  if (member !== undefined) parts.push(member);
  return nameOfPath(parts);
}

/** A path within a body as in error messages: `recipients.0.email`. */
export function nameOfPath(parts: readonly (string | number)[]): string {
  return parts.length === 0 ? '(root)' : parts.map((part) => shorten(String(part))).join('.');
}

/** Shortens a name that a client chose, so that it does not fill an error message. */
export function shorten(name: string): string {
  return name.length > 100 ? `${name.slice(0, 100)}…` : name;
}

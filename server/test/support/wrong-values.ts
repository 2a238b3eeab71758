/** The part of a schema that errors depend on. */
interface Schema {
  type?: string | string[];
  properties?: Record<string, Schema>;
  required?: string[];
  additionalProperties?: boolean;
  anyOf?: Schema[];
  enum?: unknown[];
  format?: string;
  pattern?: string;
  minLength?: number;
  maxLength?: number;
  minimum?: number;
  maximum?: number;
  /** The error of every wrong value. */
  'x-problem'?: string;
}

/** A change that makes a valid value wrong: `value` at this path, or nothing if it is `undefined`. */
export interface WrongValue {
  path: string[];
  value: unknown;
  /** The message of the error. */
  message: string;
}

/** Every way to break one rule of a schema. */
export function wrongValues(schema: object, path: string[] = []): WrongValue[] {
  const { properties = {}, required = [], additionalProperties } = schema as Schema;
  const members = Object.entries(properties).flatMap(([name, member]) => {
    const at = [...path, name];
    const missing = { path: at, value: undefined, message: `Param '${at.join('.')}' is missing` };
    return [...(required.includes(name) ? [missing] : []), ...wrongAt(member, at)];
  });
  if (additionalProperties !== false) return members;
  const root = path.length === 0 ? '(root)' : path.join('.');
  return [
    { path: [...path, 'surprise'], value: 1, message: `Param '${root}' doesn't allow key: surprise` },
    ...members,
  ];
}

const ARTICLES: Record<string, string> = { integer: 'an integer', object: 'an object', null: 'null' };

function wrongAt(schema: Schema, path: string[]): WrongValue[] {
  const nullable = schema.anyOf?.some(({ type }) => type === 'null') ?? [schema.type].flat().includes('null');
  const one = schema.anyOf?.find(({ type }) => type !== 'null') ?? schema;
  const type =
    [one.type ?? (one.enum === undefined ? [] : 'string')].flat().find((word) => word !== 'null') ?? '';
  const names = [type, ...(nullable ? ['null'] : [])]
    .map((word) => ARTICLES[word] ?? `a ${word}`)
    .join(' or ');
  const wrong = (value: unknown, problem: string) => ({
    path,
    value,
    message: `Param '${path.join('.')}' ${one['x-problem'] ?? problem}`,
  });
  const choices = one.enum === undefined ? undefined : `must be one of: ${one.enum.map(String).join(', ')}`;
  const otherTypes = [[], type === 'string' ? 1 : 'text', ...(nullable ? [] : [null])];
  return [
    // The error of an enum without a type lists the values.
    ...otherTypes.map((value) => wrong(value, one.type === undefined ? (choices ?? '') : `must be ${names}`)),
    ...(choices === undefined ? [] : [wrong('none of them', choices)]),
    ...wrongTexts(one).map(([value, problem]) => wrong(value, problem)),
    ...wrongNumbers(one).map(([value, problem]) => wrong(value, problem)),
    ...(one.properties === undefined ? [] : wrongValues(one, path)),
  ];
}

const count = (limit: number) => `${limit} character${limit === 1 ? '' : 's'}`;

function wrongTexts({ minLength = 0, maxLength, pattern, format }: Schema): [string, string][] {
  const texts: [string, string][] = [];
  if (minLength > 0) texts.push(['x'.repeat(minLength - 1), `must have at least ${count(minLength)}`]);
  if (maxLength !== undefined)
    texts.push(['x'.repeat(maxLength + 1), `must have at most ${count(maxLength)}`]);
  if (pattern !== undefined) texts.push(['!', `must match the pattern ${pattern}`]);
  if (format === 'email') texts.push(['no address', 'must be an e-mail address']);
  if (format === 'uri') texts.push(['nowhere', 'must be an absolute URI']);
  return texts;
}

function wrongNumbers({ type, minimum, maximum }: Schema): [number, string][] {
  const numbers: [number, string][] = [];
  if (type === 'integer') numbers.push([(minimum ?? 0) + 0.5, 'must be an integer']);
  if (minimum !== undefined) numbers.push([minimum - 1, `must be ${minimum} or more`]);
  if (maximum !== undefined) numbers.push([maximum + 1, `must be ${maximum} or less`]);
  return numbers;
}

/** A copy of a value with one wrong member. */
export function withWrong(valid: object, { path: [name = '', ...rest], value, message }: WrongValue): object {
  const copy: Record<string, unknown> = { ...valid };
  if (rest.length > 0) copy[name] = withWrong((copy[name] ?? {}) as object, { path: rest, value, message });
  else if (value === undefined) delete copy[name];
  else copy[name] = value;
  return copy;
}

import {
  _,
  Ajv,
  type Code,
  type ErrorObject,
  type KeywordErrorDefinition,
  type Name,
  type Options,
  type ValidateFunction,
} from 'ajv';
import addFormats from 'ajv-formats';
import { isEmailAddress } from '../lib/email-address.ts';
import { isBlank, isExternalId } from '../lib/external-id.ts';
import { isId } from '../lib/ids.ts';
import { canonicalLocale } from '../lib/locale.ts';
import { memberOf } from '../lib/members.ts';
import { parseUserReference } from '../lib/user-reference.ts';
import { LINEAR_EQUIVALENTS } from './app-id.ts';
import { MAX_ERRORS, problemsOf } from './problems.ts';

const OPTIONS: Options = {
  allErrors: true,
  strict: true,
  strictRequired: false,
  allowUnionTypes: true,
  verbose: true, // an error carries its schema: see `x-problem`
  // Compiling the schema of schemas would take a twentieth of a start. openapi.test.ts validates ours.
  meta: false,
  validateSchema: false,
  keywords: ['x-problem', 'x-missing'],
  // A body can be wrong in 50,000 places, with several errors for each: looking ends at the last error that
  // is read. For as many wrong recipients that takes 7 to 10 ms and 6 MB, instead of 150 to 220 ms and 54 MB.
  code: {
    regExp: matcher,
    process: (code) =>
      code.replace(/vErrors\.push\((\w+)\)/g, `if (vErrors.push($1) > ${MAX_ERRORS}) throw vErrors`),
  },
};

/** Returns whether a value is valid. If not, `errors` has the reasons. */
export interface Validator {
  (value: unknown): boolean;
  errors: ErrorObject[];
}

/**
 * Returns a validator for a part of the request. It compiles the schema at its first use, because compiling
 * all of them takes as long as the rest of a start. Only values in the URL are converted: there all is text.
 */
export function validatorFor(part: string | undefined, schema: object): Validator {
  let compiled: Validator | undefined;
  const validator = (value: unknown): boolean => {
    compiled ??= compile(part, schema);
    const valid = compiled(value);
    validator.errors = compiled.errors;
    return valid;
  };
  validator.errors = [] as ErrorObject[];
  return validator;
}

function compile(part: string | undefined, schema: object): Validator {
  if (part === 'body') return ended(bodyAjv.compile(schema));
  const validate = ended(urlAjv.compile(schema));
  const readings = Object.entries((schema as { properties?: Record<string, object> }).properties ?? {})
    .map(([name, { type, format }]: [string, { type?: unknown; format?: unknown }]) => {
      return [name, isCursor(name, format) ? readCursor : READINGS[String(type)]] as const;
    })
    .filter((one): one is [string, (text: string) => unknown] => one[1] !== undefined);
  const validator = (value: unknown): boolean => {
    const given = value as Record<string, unknown>;
    for (const [name, read] of readings) if (typeof given[name] === 'string') given[name] = read(given[name]);
    const valid = validate(given);
    validator.errors = validate.errors;
    return valid;
  };
  validator.errors = [] as ErrorObject[];
  return validator;
}

// Only numbers as people write them. The conversion of the validator also accepts `0x10`, `1e1` and ` 10`.
const READINGS: Record<string, (text: string) => unknown> = {
  integer: (text) => (/^-?\d{1,15}$/.test(text) ? Number(text) : text),
  boolean: readBoolean,
  // Forms send an empty text for none.
  'boolean,null': (text) => (text === '' || text === 'null' ? null : readBoolean(text)),
};

/** Cursors that are no UUIDs have a format of their own, or none. No cursor of `links` is `null`. */
function isCursor(name: string, format: unknown): boolean {
  return format === 'cursor' || name === 'starting_after' || name === 'ending_before';
}

/** Clients without types write `null` for none. */
function readCursor(text: string): unknown {
  return text === 'null' ? null : text;
}

function readBoolean(text: string): unknown {
  return text === 'true' ? true : text === 'false' ? false : text;
}

/**
 * Returns a function that returns everything that is wrong with a value. With `convert`, it first replaces
 * texts in the value by the integer or boolean that they show, where the schema has one. The schema is
 * compiled at the first use: most are not used by a process.
 */
export function problemsIn(schema: object, { convert = false } = {}): (value: unknown) => string[] {
  let compiled: Validator | undefined;
  return (value) => {
    compiled ??= compile('body', schema);
    if (compiled(value) || (convert && convertIn(value, compiled.errors) && compiled(value))) return [];
    return problemsOf(compiled.errors, { rendered: convert });
  };
}

/** Converts the texts that are errors because of their type. Returns whether there were any. */
function convertIn(value: unknown, errors: readonly ErrorObject[]): boolean {
  let any = false;
  for (const { keyword, params, data, instancePath } of errors) {
    const isText = keyword === 'type' && typeof data === 'string';
    const converted = isText ? READINGS[params.type]?.(data) : undefined;
    if (typeof converted !== 'number' && typeof converted !== 'boolean') continue;
    const names = instancePath.split('/').slice(1);
    const last = names.pop();
    const parent = names.reduce<unknown>(memberOf, value);
    if (last === undefined || typeof parent !== 'object' || parent === null) continue;
    (parent as Record<string, unknown>)[last] = converted;
    any = true;
  }
  return any;
}

/** Compiles a pattern, or its equivalent in linear time. */
function matcher(pattern: string, flags: string): RegExp {
  return new RegExp(LINEAR_EQUIVALENTS.get(pattern) ?? pattern, flags);
}
matcher.code = 'new RegExp'; // asked for by ajv, for code that is written to files

/** Returns the errors found so far when `OPTIONS.code` has ended the search. */
function ended(validate: ValidateFunction): Validator {
  const validator = (value: unknown): boolean => {
    try {
      const valid = validate(value);
      validator.errors = validate.errors ?? [];
      return valid;
    } catch (thrown) {
      if (!Array.isArray(thrown)) throw thrown;
      validator.errors = thrown;
      return false;
    }
  };
  validator.errors = [] as ErrorObject[];
  return validator;
}

const bodyAjv = withLengths(withFormats(new Ajv(OPTIONS)));
// `textProblems` looks at all strings of a body. Here it would take half of the time of a recipient.
bodyAjv.addFormat('text', true);
bodyAjv.addFormat('external-id', (text: string) => !isBlank(text));
const urlAjv = withLengths(withFormats(new Ajv({ ...OPTIONS, useDefaults: true })));

function withFormats(ajv: Ajv): Ajv {
  addFormats.default(ajv);
  const { validate: isDateTime } = ajv.formats['date-time'] as { validate(text: string): boolean };
  // The format of the package accepts a leap second, which JavaScript cannot parse.
  ajv.addFormat('date-time', (text: string) => isDateTime(text) && !Number.isNaN(Date.parse(text)));
  ajv.addFormat('uuid', isId); // the package's takes `urn:uuid:` too, which PostgreSQL does not
  ajv.addFormat('cursor', (text: string) => text === '' || isId(text)); // empty: what forms send for none
  ajv.addFormat('email', isEmailAddress);
  ajv.addFormat('external-id', isExternalId);
  ajv.addFormat('locale', (text: string) => canonicalLocale(text) !== undefined);
  ajv.addFormat('user-reference', (text: string) => parseUserReference(text) !== undefined);
  ajv.addFormat('uri', isUri);
  ajv.addFormat('text', (text: string) => text.isWellFormed() && !text.includes('\0'));
  return ajv;
}

/**
 * Lengths are in characters, as in JSON Schema. They are only counted if the number of UTF-16 units does not
 * decide, because counting 10 MiB of content takes longer than parsing it.
 */
function withLengths(ajv: Ajv): Ajv {
  const error: KeywordErrorDefinition = {
    message: 'has a wrong length',
    params: ({ schemaCode }) => _`{limit: ${schemaCode}}`,
  };
  const keyword = (name: string, isWrong: (text: Name, limit: number, hasMore: Name) => Code) => {
    ajv.removeKeyword(name);
    ajv.addKeyword({
      keyword: name,
      type: 'string',
      schemaType: 'number',
      error,
      code(context) {
        const { data, gen, schema: limit } = context;
        context.fail(isWrong(data, limit, gen.scopeValue('func', { ref: hasMoreCharacters })));
      },
    });
  };
  keyword('maxLength', (text, limit, hasMore) => {
    return _`${text}.length > ${limit} && ${hasMore}(${text}, ${limit})`;
  });
  keyword('minLength', (text, limit, hasMore) => {
    return _`${text}.length < ${2 * limit} && !${hasMore}(${text}, ${limit - 1})`;
  });
  return ajv;
}

/** Returns whether a text has more characters than `limit`. Reads no further than needed. */
function hasMoreCharacters(text: string, limit: number): boolean {
  if (text.length <= limit) return false;
  // The pairs of surrogates that it needs to fit: each is one character of two units.
  let pairs = text.length - limit;
  for (let index = 0; pairs > 0; index += 1) {
    if (2 * pairs > text.length - index) return true;
    if ((text.charCodeAt(index) & 0xfc00) !== 0xd800) continue;
    if ((text.charCodeAt(index + 1) & 0xfc00) !== 0xdc00) continue;
    pairs -= 1;
    index += 1;
  }
  return false;
}

// RFC 3986 as far as characters and their places go; the rest, such as numbers in addresses, is for URL to
// judge. Unlike the package's expression it is linear: no part can begin in two places. And long input is
// refused before it is looked at.
function isUri(text: string): boolean {
  return text.length <= 16_384 && URI.test(text) && URL.canParse(text);
}

const USER = /(?:(?:[\w.~!$&'()*+,;=:-]|%[\da-f]{2})*@)?/;
const HOST = /(?:\[[\da-f:.]+\]|(?:[\w.~!$&'()*+,;=-]|%[\da-f]{2})*)(?::\d*)?(?=[/?#]|$)/;
const PATH = /(?:[\w.~!$&'()*+,;=:@/-]|%[\da-f]{2})*/;
const QUERY = /(?:[\w.~!$&'()*+,;=:@/?-]|%[\da-f]{2})*/;
const URI = new RegExp(
  `^[a-z][a-z0-9+.-]*:(?://${USER.source}${HOST.source}|(?!//))${PATH.source}` +
    `(?:\\?${QUERY.source})?(?:#${QUERY.source})?$`,
  'i',
);

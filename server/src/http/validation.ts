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
import { LINEAR_EQUIVALENTS } from '../contract/app-id.ts';
import { ClientError } from '../errors.ts';
import { isEmailAddress } from '../lib/email-address.ts';
import { isExternalId } from '../lib/external-id.ts';
import { isId } from '../lib/ids.ts';
import { MAX_ERRORS, problemsOf } from './problems.ts';

const OPTIONS: Options = {
  allErrors: true,
  strict: true,
  strictRequired: false,
  allowUnionTypes: true,
  verbose: true, // an error carries its schema: see `x-problem`
  keywords: ['x-problem'],
  // A body can be wrong in ten million places, and an error for each would fill the memory: looking ends at the last that is read.
  code: {
    regExp: matcher,
    process: (code) =>
      code.replace(/vErrors\.push\((\w+)\)/g, `if (vErrors.push($1) > ${MAX_ERRORS}) throw vErrors`),
  },
};

/** Says whether a value is valid; if not, `errors` says why. */
export interface Validator {
  (value: unknown): boolean;
  errors: ErrorObject[];
}

/** Compiles a schema for a part of the request. Only what a URL carries is converted: there everything is text. */
export function validatorFor(part: string | undefined, schema: object): Validator {
  if (part === 'body') return ended(bodyAjv.compile(schema));
  const validate = ended(urlAjv.compile(schema));
  const readings = Object.entries((schema as { properties?: Record<string, object> }).properties ?? {})
    .map(([name, { type }]: [string, { type?: unknown }]) => [name, READINGS[String(type)]] as const)
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

// Numbers as people write them: the validator's own conversion takes `0x10`, `1e1` and ` 10` for some, too.
const READINGS: Record<string, (text: string) => unknown> = {
  integer: (text) => (/^-?\d{1,15}$/.test(text) ? Number(text) : text),
  boolean: (text) => (text === 'true' ? true : text === 'false' ? false : text),
};

/** Compiles a schema into a function that answers what is wrong with a value. */
export function problemsIn(schema: object): (value: unknown) => string[] {
  const validate = ended(bodyAjv.compile(schema));
  return (value) => (validate(value) ? [] : problemsOf(validate.errors));
}

/** The error for a request that its schema refuses: every problem, each naming its field. */
export function refusal(errors: readonly ErrorObject[], part: string): ClientError {
  // What stands in a path is an id: one that cannot be any is not a matter of validation but of addressing.
  if (part === 'params') return new ClientError('invalid_id');
  return new ClientError('validation_failed', problemsOf(errors));
}

/** What a pattern is matched by: itself, but for those that take forever to say no. */
function matcher(pattern: string, flags: string): RegExp {
  return new RegExp(LINEAR_EQUIVALENTS.get(pattern) ?? pattern, flags);
}
matcher.code = 'new RegExp'; // asked for by ajv, for code that is written to files

/** Answers the errors found so far where `OPTIONS.code` ended the search. */
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
const urlAjv = withLengths(withFormats(new Ajv({ ...OPTIONS, useDefaults: true })));

function withFormats(ajv: Ajv): Ajv {
  addFormats.default(ajv);
  ajv.addFormat('uuid', isId); // the package's takes `urn:uuid:` too, which PostgreSQL does not
  ajv.addFormat('cursor', (text: string) => text === '' || isId(text)); // empty: what forms send for none
  ajv.addFormat('email', isEmailAddress);
  ajv.addFormat('external-id', isExternalId);
  ajv.addFormat('uri', isUri);
  ajv.addFormat('text', (text: string) => text.isWellFormed() && !text.includes('\0'));
  return ajv;
}

/**
 * Lengths are in characters, as JSON Schema has them, but not counted one by one where the number of UTF-16 units decides: for
 * 10 MiB of content the counting takes longer than reading it.
 */
function withLengths(ajv: Ajv): Ajv {
  const error: KeywordErrorDefinition = {
    message: 'has a wrong length',
    params: ({ schemaCode }) => _`{limit: ${schemaCode}}`,
  };
  const keyword = (name: string, isWrong: (text: Name, limit: number, characters: Code) => Code) => {
    ajv.removeKeyword(name);
    ajv.addKeyword({
      keyword: name,
      type: 'string',
      schemaType: 'number',
      error,
      code(context) {
        const { data, gen, schema: limit } = context;
        const count = gen.scopeValue('func', { ref: charactersIn });
        context.fail(isWrong(data, limit, _`${count}(${data})`));
      },
    });
  };
  keyword('maxLength', (text, limit, characters) => {
    return _`${text}.length > ${limit} && (${text}.length > ${2 * limit} || ${characters} > ${limit})`;
  });
  keyword('minLength', (text, limit, characters) => {
    return _`${text}.length < ${2 * limit} && (${text}.length < ${limit} || ${characters} < ${limit})`;
  });
  return ajv;
}

function charactersIn(text: string): number {
  let count = text.length;
  for (let index = 0; index < text.length - 1; index += 1) {
    if ((text.charCodeAt(index) & 0xfc00) !== 0xd800) continue;
    if ((text.charCodeAt(index + 1) & 0xfc00) !== 0xdc00) continue;
    count -= 1;
    index += 1;
  }
  return count;
}

// RFC 3986 as far as characters and their places go; the rest, such as numbers in addresses, is for URL to judge. Unlike the package's
// expression it is linear: no part can begin in two places. And long input is refused before it is looked at.
function isUri(text: string): boolean {
  return text.length <= 16_384 && URI.test(text) && URL.canParse(text);
}

const USER = /(?:(?:[\w.~!$&'()*+,;=:-]|%[\da-f]{2})*@)?/;
const HOST = /(?:\[[\da-f:.]+\]|(?:[\w.~!$&'()*+,;=-]|%[\da-f]{2})*)(?::\d*)?(?=[/?#]|$)/;
const PATH = /(?:[\w.~!$&'()*+,;=:@/-]|%[\da-f]{2})*/;
const QUERY = /(?:[\w.~!$&'()*+,;=:@/?-]|%[\da-f]{2})*/;
const URI = new RegExp(
  `^[a-z][a-z0-9+.-]*:(?://${USER.source}${HOST.source}|(?!//))${PATH.source}(?:\\?${QUERY.source})?(?:#${QUERY.source})?$`,
  'i',
);

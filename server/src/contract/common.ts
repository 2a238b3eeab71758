import { type Static, type TSchema, type TUnsafe, Type } from 'typebox';
import { MAX_EMAIL_CHARACTERS } from '../lib/email-address.ts';
import { MAX_EXTERNAL_ID_CHARACTERS } from '../lib/external-id.ts';
import { MAX_LOCALE_CHARACTERS } from '../lib/locale.ts';

export const exampleId = '0197a3c4-5b6e-7f01-8a2b-3c4d5e6f7081';
export const exampleTime = '2026-01-31T12:00:00.000Z';

/** An id that Belfry made. */
export const Id = Type.String({ format: 'uuid', examples: [exampleId] });

/** A point in time, as ISO 8601 in UTC with milliseconds. */
export const Timestamp = Type.String({ format: 'date-time', examples: [exampleTime] });

/** An object whose members are up to the client. */
export const FreeObject = Type.Unsafe<Record<string, unknown>>({ type: 'object', additionalProperties: {} });

/** The response of an operation without content. */
export const NoContent = Type.Null({ description: 'Done.' });

/** The schema or `null`. A member that may also be missing is `Type.Optional(nullable(…))`. */
export function nullable<Schema extends TSchema>(schema: Schema): TUnsafe<Static<Schema> | null> {
  // `type: [x, null]` and not a union: a wrong value is then one problem, not one for each branch.
  const plain = schema as Schema & {
    type?: unknown;
    enum?: unknown[];
    const?: unknown;
    anyOf?: unknown[];
  };
  if (typeof plain.type !== 'string' || plain.const !== undefined) {
    return Type.Unsafe<Static<Schema> | null>({ anyOf: [schema, { type: 'null' }] });
  }
  const choices = {
    ...(plain.enum === undefined ? {} : { enum: [...plain.enum, null] }),
    ...(plain.anyOf === undefined ? {} : { anyOf: [...plain.anyOf, { type: 'null' }] }),
  };
  return Type.Unsafe<Static<Schema> | null>({ ...plain, ...choices, type: [plain.type, 'null'] });
}

/** A member of responses that requests may repeat, because programs save what they read. It is ignored. */
export function readOnly<Schema extends TSchema>(schema: Schema): TUnsafe<Static<Schema>> {
  return Type.Unsafe<Static<Schema>>({ ...schema, readOnly: true });
}

/** For `anyOf` of an object: requires this member, which must not be `null`. */
export function given(name: string): TSchema {
  return Type.Object({ [name]: Type.Unsafe<string>({ not: { type: 'null' } }) });
}

/** One of these words. */
export function oneOf<const Words extends readonly string[]>(
  words: Words,
  options: { title?: string; description?: string } = {},
): TUnsafe<Words[number]> {
  return Type.Unsafe<Words[number]>({ type: 'string', enum: [...words], ...options });
}

/**
 * A string for a text column. PostgreSQL cannot store U+0000, and half of a surrogate pair is no character,
 * so both are rejected here.
 */
export function storedString(
  options: { minLength?: number; maxLength?: number; description?: string; examples?: string[] } = {},
) {
  return Type.String({ ...options, format: 'text' });
}

/** The id of a user in the system of the project. */
export const ExternalId = Type.String({
  minLength: 1,
  maxLength: MAX_EXTERNAL_ID_CHARACTERS,
  format: 'external-id',
  description: 'The id of the user in your system. Not blank.',
});

/** The e-mail address of a user. */
export const EmailAddress = Type.String({
  maxLength: MAX_EMAIL_CHARACTERS,
  format: 'email',
  description: "The user's e-mail address.",
});

/** The language of a user. */
export const Locale = Type.String({
  maxLength: MAX_LOCALE_CHARACTERS,
  format: 'locale',
  examples: ['pt-BR'],
  description: "The user's language as a BCP 47 tag, such as `de` or `pt-BR`. Stored in canonical form.",
});

/** A phone number as people write it, with up to the 15 digits of E.164. */
export const PhoneNumber = Type.String({
  maxLength: 32,
  pattern: '^\\+[0-9]([ ().-]*[0-9]){2,14}[ ().-]*$',
  'x-problem': 'must be a phone number in international form, such as +15005550001',
  description: 'A phone number in international form, such as +15005550001.',
});

/** The phone numbers of a user. */
export const PhoneNumbers = Type.Array(PhoneNumber, {
  maxItems: 20,
  description: 'Phone numbers in international form, such as +15005550001.',
});

const cursor = (description: string) =>
  Type.Optional(Type.Unsafe<string | null>({ type: ['string', 'null'], format: 'cursor', description }));

/** The query of every list. Spread it to add filters: `Type.Object({ ...pageQuery, status: … })`. */
export const pageQuery = {
  limit: Type.Optional(
    Type.Integer({
      minimum: 1,
      maximum: 100,
      default: 50,
      description: 'The maximum number of records on a page.',
    }),
  ),
  starting_after: cursor('The id of the last record of a page. Returns the page after it.'),
  ending_before: cursor('The id of the first record of a page. Returns the page before it.'),
};

export const PageQuery = Type.Object(pageQuery);
export type PageQuery = Static<typeof PageQuery>;

const PageLinks = Type.Object(
  {
    first: Type.String({ description: 'The address of the first page.' }),
    next: nullable(Type.String({ description: 'The address of the next page; `null` on the last page.' })),
    prev: nullable(
      Type.String({ description: 'The address of the previous page; `null` on the first page.' }),
    ),
  },
  { title: 'PageLinks' },
);

/** A page of a list, newest first. A page of `User`s has the title `UserList`. */
export function page<Item extends TSchema>(item: Item) {
  const { title } = item as { title?: string };
  return Type.Object({ data: Type.Array(item), links: PageLinks }, { title: `${title}List` });
}

/** The same schema with a description of what it means at this place. */
export function described<Schema extends TSchema>(
  schema: Schema,
  description: string,
): TUnsafe<Static<Schema>> {
  const { title, description: general = '' } = schema as { title?: string; description?: string };
  // What the name means everywhere, for http/openapi/schemas.ts.
  const named = title === undefined ? {} : { $comment: general };
  return Type.Unsafe<Static<Schema>>({ ...schema, ...named, description });
}

/** A page in a response. */
export interface Page<Item> {
  data: Item[];
  links: { first: string; next: string | null; prev: string | null };
}

/** The body of every error response. */
export const Errors = Type.Object(
  {
    errors: Type.Array(
      Type.Object(
        {
          code: Type.Optional(Type.String({ description: 'The kind of problem, for programs.' })),
          message: Type.String({ description: 'The problem in words, with the name of the field.' }),
          suggestion: Type.Optional(Type.String({ description: 'How to correct it.' })),
          help_link: Type.Optional(Type.String({ description: 'Where to read more.' })),
        },
        { title: 'ErrorDetail' },
      ),
      { description: 'All problems of the request.' },
    ),
  },
  { title: 'Errors' },
);

/** A user as its project knows it, beside its id. */
export const UserName = Type.Object(
  {
    external_id: nullable(Type.String()),
    email: nullable(Type.String({ description: 'The masked e-mail address: `a***@example.com`.' })),
  },
  { title: 'UserName' },
);
export type UserName = Static<typeof UserName>;

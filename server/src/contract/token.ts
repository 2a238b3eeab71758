import { Type } from 'typebox';
import { described, Id, pageQuery, storedString, Timestamp } from './common.ts';

/** The path of a token. */
export const TokenId = Type.Object({ token_id: described(Id, 'The id of the token.') });
/** The path of a token whose id is not always a UUID. */
export const PublicTokenIdInPath = Type.Object({
  token_id: storedString({ minLength: 1, description: 'The id of the token, as in the list.' }),
});

const publicCursor = (cursor: object) =>
  Type.Optional(Type.Unsafe<string | null>({ ...cursor, format: 'text', maxLength: 511 }));

/** The query of a list whose ids are not always UUIDs. */
export const PublicTokenPageQuery = Type.Object({
  limit: pageQuery.limit,
  starting_after: publicCursor(pageQuery.starting_after),
  ending_before: publicCursor(pageQuery.ending_before),
});

/** The part of a path that names a user. */
export const DiscardResult = Type.Object(
  { id: Type.String(), discarded_at: Timestamp },
  { title: 'DiscardedToken' },
);

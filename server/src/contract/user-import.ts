import { type Static, Type } from 'typebox';
import { described, exampleId, exampleTime, Id, nullable, oneOf, Timestamp } from './common.ts';
import { SaveUser } from './user.ts';

/** The most users of one import. */
export const MAX_IMPORTED_USERS = 10_000;

/** A user of an import: as in `PUT /users`, but `null` as an identity changes nothing. */
export const ImportUser = SaveUser;
export type ImportUser = SaveUser;

/** The body of `POST /users/import`. http/bodies/parse-rows.ts validates the users one by one. */
export const ImportUsers = Type.Object(
  {
    users: Type.Array(ImportUser, {
      maxItems: MAX_IMPORTED_USERS,
      description: 'Members replace stored values, missing members stay, and `null` clears.',
    }),
  },
  {
    title: 'UserImportInput',
    additionalProperties: false,
    examples: [{ users: [{ external_id: '42', email: 'ada@example.com', first_name: 'Ada' }] }],
  },
);

export const ImportFailure = Type.Object(
  {
    row: Type.Integer({ minimum: 1, description: 'The place of the user in the body, from 1.' }),
    user: Type.Object(
      { external_id: Type.Optional(Type.String()), email: Type.Optional(Type.String()) },
      { title: 'FailedUser', description: 'Its identities, as they were sent.' },
    ),
    errors: Type.Array(Type.Object({ message: Type.String() }, { title: 'UserImportProblem' }), {
      description: 'All problems of the user.',
    }),
  },
  { title: 'UserImportFailure' },
);
export type ImportFailure = Static<typeof ImportFailure>;

export const UserImport = Type.Object(
  {
    id: Id,
    status: oneOf(['enqueued', 'processing', 'processed']),
    total: Type.Integer({ description: 'The number of users in the body.' }),
    done: Type.Integer({ description: 'The users that were processed so far, with those that failed.' }),
    created: Type.Integer(),
    updated: Type.Integer({ description: 'Users that already existed and were changed or restored.' }),
    failed: Type.Integer(),
    failures: Type.Array(ImportFailure, { description: 'One entry for each user that failed so far.' }),
    created_at: Timestamp,
    processed_at: nullable(Timestamp),
  },
  {
    title: 'UserImport',
    examples: [
      {
        id: exampleId,
        status: 'processed',
        total: 3,
        done: 3,
        created: 1,
        updated: 1,
        failed: 1,
        failures: [
          {
            row: 2,
            user: { email: 'ada@' },
            errors: [{ message: "Param 'email' must be an e-mail address" }],
          },
        ],
        created_at: exampleTime,
        processed_at: exampleTime,
      },
    ],
  },
);
export type UserImport = Static<typeof UserImport>;

export const ImportInPath = Type.Object({ import_id: described(Id, 'The id of the import.') });

import type { ImportFailure } from '../../../contract/user-import.ts';
import { type Queryable, sql } from '../../../db/client.ts';
import { OLDEST } from '../../../lib/cursor.ts';
import { unpackJson } from '../../../lib/packed-json.ts';
import { type IdentityKind, identityValue } from '../../ground/identities/identities.ts';

// A page of an import has up to 1000 failures.
const PAGES = 10;

/** Yields the failures of imports that name a user by an identity that it has or had, as JSON texts. */
export async function* importFailuresOfUser(
  db: Queryable,
  {
    projectId,
    user,
    former,
  }: {
    projectId: string;
    user: { external_id: string | null; email: string | null };
    former: readonly { kind: IdentityKind; value: string }[];
  },
): AsyncGenerator<string> {
  const names = new Set(former.map(({ kind, value }) => `${kind} ${value}`));
  const nameOf = (kind: IdentityKind, value: string) => `${kind} ${identityValue(kind, value)}`;
  if (user.external_id !== null) names.add(nameOf('external_id', user.external_id));
  if (user.email !== null) names.add(nameOf('email', user.email));
  const isNamed = ({ external_id: externalId, email }: ImportFailure['user']) =>
    (externalId !== undefined && names.has(nameOf('external_id', externalId))) ||
    (email !== undefined && names.has(nameOf('email', email)));
  for (let last: FailedPage = { import_id: OLDEST, page: 0, failures: Buffer.alloc(0) }; ; ) {
    const pages = await db.query<FailedPage>(selectPages, [projectId, last.import_id, last.page, PAGES]);
    for (const { import_id, failures } of pages)
      for (const failure of JSON.parse(unpackJson(failures)) as ImportFailure[])
        if (isNamed(failure.user)) yield JSON.stringify({ import_id, ...failure });
    if (pages.length < PAGES) return;
    last = pages.at(-1) ?? last;
  }
}

interface FailedPage {
  import_id: string;
  page: number;
  failures: Buffer;
}

// Index user_imports_failed, and primary key of user_import_pages.
const selectPages = sql(
  'import_failures_of_user',
  `select p.import_id, p.page, p.failures
  from user_imports i
  join user_import_pages p on p.import_id = i.id
  where i.project_id = $1 and i.failed > 0 and i.id >= $2 and (p.import_id, p.page) > ($2, $3)
    and p.rows is null and p.failures is not null
  order by p.import_id, p.page
  limit $4`,
);

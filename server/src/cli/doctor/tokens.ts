import { type Queryable, sql } from '../../db/client.ts';
import { type Finding, ok, warning } from './finding.ts';

const CHECK = 'tokens';
const MOST_NAMED = 20;

/**
 * The Project JWTs without `exp`: one that leaks is of use to others until it is revoked, or its key ends.
 */
export async function checkTokens(db: Queryable): Promise<Finding[]> {
  const endless = await db.query<EndlessToken>(selectEndless);
  if (endless.length === 0) return [ok(CHECK, 'every Project JWT expires')];
  const names = endless
    .slice(0, MOST_NAMED)
    .map(({ name, project, jti }) => `${name} of project ${project} (${jti})`);
  const more = endless.length > MOST_NAMED ? ` and ${endless.length - MOST_NAMED} more` : '';
  const message = `${endless.length} Project JWT${endless.length === 1 ? '' : 's'} without exp: ${names.join(', ')}${more}`;
  // The one in credentials.json is made by the start, and stays in DATA_DIR with the key.
  if (endless.every(({ ours }) => ours)) return [ok(CHECK, message)];
  return [
    warning(
      CHECK,
      message,
      'issue others with belfry token issue --expires 90d, then revoke these with belfry token revoke <jti>',
    ),
  ];
}

interface EndlessToken {
  jti: string;
  name: string;
  project: string;
  ours: boolean;
}

// The whole table. A token that was signed with a former key ends with it.
const selectEndless = sql(
  'doctor_endless_tokens',
  `select t.jti, t.name, p.name as project, t.issued_for is not null as ours
  from project_tokens t
  join projects p on p.id = t.project_id
  where t.expires_at is null and t.revoked_at is null and t.key_ends_at is null
  order by p.name, t.issued_at, t.jti`,
);

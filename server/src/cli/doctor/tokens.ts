import { type Queryable, sql } from '../../db/client.ts';
import { type Finding, ok, warning } from './finding.ts';

const CHECK = 'tokens';
const MAX_NAMED = 20;

/** The Project JWTs without `exp`: a leaked one stays valid until it is revoked or its key ends. */
export async function checkTokens(db: Queryable): Promise<Finding[]> {
  const endless = await db.query<EndlessToken>(selectEndless);
  if (endless.length === 0) return [ok(CHECK, 'every Project JWT expires')];
  const names = endless
    .slice(0, MAX_NAMED)
    .map(({ name, project, jti }) => `${name} of project ${project} (${jti})`);
  const more = endless.length > MAX_NAMED ? ` and ${endless.length - MAX_NAMED} more` : '';
  const count = `${endless.length} Project JWT${endless.length === 1 ? '' : 's'}`;
  const message = `${count} without exp: ${names.join(', ')}${more}`;
  // Belfry's own one in credentials.json stays in DATA_DIR, as the key does.
  if (endless.every(({ ours }) => ours)) return [ok(CHECK, message)];
  return [
    warning(
      CHECK,
      message,
      'issue new ones with belfry token issue --expires 90d, and revoke these with belfry token revoke',
    ),
  ];
}

interface EndlessToken {
  jti: string;
  name: string;
  project: string;
  ours: boolean;
}

// The whole table. A token that a former key has signed ends with that key.
const selectEndless = sql(
  'doctor_endless_tokens',
  `select t.jti, t.name, p.name as project, t.issued_for is not null as ours
  from project_tokens t
  join projects p on p.id = t.project_id
  where t.expires_at is null and t.revoked_at is null and t.key_ends_at is null
  order by p.name, t.issued_at, t.jti`,
);

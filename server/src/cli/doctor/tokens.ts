import { type Queryable, sql } from '../../db/client.ts';
import { type Finding, ok, warning } from './finding.ts';

const CHECK = 'tokens';
const MAX_NAMED = 20;

/**
 * The Project JWTs without `exp`: a leaked one stays valid until it is revoked or its key ends. Those that
 * servers have in their credentials.json stay in DATA_DIR, as the key does.
 */
export async function checkTokens(db: Queryable): Promise<Finding[]> {
  const endless = await db.query<EndlessToken>(selectEndless);
  const [ours, others] = [endless.filter((one) => one.ours), endless.filter((one) => !one.ours)];
  const findings: Finding[] = [];
  if (others.length > 0) {
    const advice =
      'issue new ones with belfry token issue --expires 90d, and revoke these with belfry token revoke';
    findings.push(warning(CHECK, withoutEnd(others), advice));
  }
  if (ours.length > 0) findings.push(ok(CHECK, withoutEnd(ours)));
  return endless.length === 0 ? [ok(CHECK, 'every Project JWT expires')] : findings;
}

function withoutEnd(tokens: readonly EndlessToken[]): string {
  const names = tokens
    .slice(0, MAX_NAMED)
    .map(({ name, project, jti }) => `${name} of project ${project} (${jti})`);
  const more = tokens.length > MAX_NAMED ? ` and ${tokens.length - MAX_NAMED} more` : '';
  const count = `${tokens.length} Project JWT${tokens.length === 1 ? '' : 's'}`;
  return `${count} without exp: ${names.join(', ')}${more}`;
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

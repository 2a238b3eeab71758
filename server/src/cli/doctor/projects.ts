import type { Config } from '../../config.ts';
import { type Database, sql } from '../../db/client.ts';
import { sealedFor } from '../../domain/setup/integrations/cache.ts';
import { IS_CURRENT } from '../../domain/setup/integrations/pauses.ts';
import { sealingPurpose } from '../../domain/setup/projects/keys.ts';
import { chunksOf } from '../../lib/chunks.ts';
import { createEgressGuard, EgressRefused } from '../../lib/egress.ts';
import type { Sealer } from '../../lib/seal.ts';
import { delivering } from '../../providers/index.ts';
import { reasonOf } from '../reason-of.ts';
import { checkFamilies } from './families.ts';
import { type Finding, ok, problem, warning } from './finding.ts';
import { checkIntegrations, checkOtherSecrets, checkSealingKey, checkWebhooks, sealerOf } from './sealing.ts';
import { checkTokens } from './tokens.ts';

const CONNECT_TIMEOUT_MS = 5_000;
const AT_ONCE = 20;
const MAX_NAMED = 20;

/**
 * Checks that the secrets of all projects can be opened, and the servers of their integrations be reached.
 */
export async function checkProjects(
  config: Config,
  db: Database,
): Promise<{ findings: Finding[]; sendsEmail: boolean }> {
  const projects = await db.query<ProjectRow>(selectProjects);
  const integrations = await db.query<IntegrationRow>(selectIntegrations);
  const sendsEmail = integrations.some(({ provider }) => delivering.get(provider)?.channel === 'email');
  const { sealer, reason } = sealerOf(config);
  const key = await checkSealingKey(config, { db, sealer, reason });
  if (sealer === undefined) return { findings: [...key, ...(await checkTokens(db))], sendsEmail };
  const opened = integrations.map((row) => ({
    ...row,
    config: opener(sealer, row.sealed_config, sealedFor(row.project_id, row.id)),
  }));
  return {
    findings: [
      ...key,
      ...checkSecrets(sealer, projects, opened),
      ...(await checkIntegrations({ db, sealer })),
      ...(await checkWebhooks({ db, sealer })),
      ...(await checkOtherSecrets({ db, sealer })),
      ...checkPauses(integrations, await db.query<PauseRow>(selectPauses)),
      ...(await checkTokens(db)),
      ...checkHmac(projects),
      ...(await checkEgress(config, opened)),
    ],
    sendsEmail,
  };
}

type Opening = { text: string } | { reason: string };

function opener(sealer: Sealer, sealed: Buffer, purpose: string): Opening {
  try {
    return { text: sealer.open(sealed, purpose).toString() };
  } catch (error) {
    return { reason: reasonOf(error) };
  }
}

type OpenedRow = IntegrationRow & { config: Opening };

function checkSecrets(sealer: Sealer, projects: ProjectRow[], integrations: OpenedRow[]): Finding[] {
  const secrets = projects.flatMap(({ id, name, sealed_api_secret, sealed_signing_key }) => [
    { what: `project ${name}`, opening: opener(sealer, sealed_api_secret, sealingPurpose(id, 'api_secret')) },
    {
      what: `project ${name}`,
      opening: opener(sealer, sealed_signing_key, sealingPurpose(id, 'signing_key')),
    },
  ]);
  const configs = integrations.map(({ project, provider, config }) => ({
    what: `${provider} of project ${project}`,
    opening: config,
  }));
  const all = [...secrets, ...configs];
  const closed = all.flatMap(({ what, opening }) =>
    'reason' in opening ? [{ what, reason: opening.reason }] : [],
  );
  const [first] = closed;
  if (first === undefined)
    return all.length === 0 ? [] : [ok('secrets', `all ${all.length} can be decrypted`)];
  const advice = 'add the key that encrypted them to SECRET_KEY (several: separated by commas)';
  return [
    problem(
      'secrets',
      `${closed.length} of ${all.length} cannot be decrypted; ${first.what}: ${first.reason}`,
      advice,
    ),
  ];
}

/** Projects whose users need no HMAC in v1. */
function checkHmac(projects: ProjectRow[]): Finding[] {
  const open = projects.filter(({ hmac_required: required }) => !required);
  if (open.length === 0) return [];
  const names = open.slice(0, MAX_NAMED).map(({ name }) => name);
  const more = open.length > MAX_NAMED ? ` and ${open.length - MAX_NAMED} more` : '';
  return [
    warning(
      'hmac',
      `users of the v1 API need no HMAC in ${names.join(', ')}${more}: everyone who knows the public API ` +
        'key and guesses an external id can read the inbox of that user',
      'belfry project hmac required --project <name>, when its clients send the HMAC',
    ),
  ];
}

/** Paused integrations. */
function checkPauses(integrations: IntegrationRow[], pauses: PauseRow[]): Finding[] {
  if (integrations.length === 0) return [];
  if (pauses.length === 0) return [ok('integrations', 'none is paused')];
  return pauses.map(({ provider, project, party, since, code, reason }) =>
    warning(
      'integrations',
      `${provider}${party === '' ? '' : ` (${party})`} of project ${project} is paused since ` +
        `${since.toISOString()}: ${reason}${code === null ? '' : ` (${code})`}`,
      'correct and save its config, or wait until its provider works: messages are deferred until then',
    ),
  );
}

/** Connects to the mail servers of integrations, and to nothing else, through the egress guard. */
async function checkEgress({ EGRESS_ALLOW }: Config, integrations: OpenedRow[]): Promise<Finding[]> {
  const servers = [...Map.groupBy(integrations.flatMap(serverOf), ({ server }) => server).values()];
  if (servers.length === 0) return [ok('egress', 'no integration has a mail server')];
  const guard = createEgressGuard({ allow: EGRESS_ALLOW });
  const findings: Finding[] = [];
  for (const chunk of chunksOf(servers, AT_ONCE)) {
    const batch = chunk.flatMap(([first]) => first ?? []);
    findings.push(...(await Promise.all(batch.map((target) => reach(guard, target)))).flat());
  }
  return findings;
}

interface Server {
  server: string;
  host: string;
  port: number;
  what: string;
}

function serverOf({ provider, project, config }: OpenedRow): Server[] {
  if ('reason' in config) return [];
  const { host, port } = JSON.parse(config.text) as { host?: unknown; port?: unknown };
  if (typeof host !== 'string' || typeof port !== 'number') return [];
  return [{ server: `${host}:${port}`, host, port, what: `${provider} of project ${project}` }];
}

async function reach(
  guard: ReturnType<typeof createEgressGuard>,
  { server, host, port, what }: Server,
): Promise<Finding[]> {
  try {
    const socket = await guard.connect({ host, port, timeoutMs: CONNECT_TIMEOUT_MS });
    socket.destroy();
    const name = `${server} (${what})`;
    const families = await checkFamilies('egress', { name, port, addresses: await guard.resolve(host) });
    return [ok('egress', `${name} can be reached`), ...families];
  } catch (error) {
    if (error instanceof EgressRefused)
      return [problem('egress', `${server} (${what}) may not be reached`, error.detail)];
    const reason = reasonOf(error);
    return [
      problem(
        'egress',
        `${server} (${what}) cannot be reached (${reason})`,
        ADVICE[reason] ?? 'check the host, the port and the firewall',
      ),
    ];
  }
}

const ADVICE: Record<string, string> = {
  ENOTFOUND: 'the name does not exist: correct the host of the integration',
  EAI_AGAIN: 'the name server does not respond: check DNS on this machine (/etc/resolv.conf)',
  ECONNREFUSED: 'nothing listens there: check the port of the integration',
  ETIMEDOUT: 'no response: a firewall may block it (many networks block port 25; try 587)',
};

interface ProjectRow {
  id: string;
  name: string;
  sealed_api_secret: Buffer;
  sealed_signing_key: Buffer;
  hmac_required: boolean;
}

interface IntegrationRow {
  id: string;
  project_id: string;
  project: string;
  provider: string;
  sealed_config: Buffer;
}

interface PauseRow {
  provider: string;
  project: string;
  party: string;
  since: Date;
  code: string | null;
  reason: string;
}

// A row for each paused integration.
const selectPauses = sql(
  'doctor_integration_pauses',
  `select i.provider, r.name as project, p.party, p.since, p.code, p.reason
  from integration_pauses p
  join integrations i on i.id = p.integration_id and i.project_id = p.project_id
  join projects r on r.id = p.project_id
  where ${IS_CURRENT}
  order by p.since`,
);

// Whole tables, because every secret is tried.
const selectProjects = sql(
  'doctor_projects',
  'select id, name, sealed_api_secret, sealed_signing_key, hmac_required from projects order by id',
);

const selectIntegrations = sql(
  'doctor_integrations',
  `select i.id, i.project_id, p.name as project, i.provider, i.sealed_config
  from integrations i
  join projects p on p.id = i.project_id
  order by i.id`,
);

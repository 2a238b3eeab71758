import { once } from 'node:events';
import { createServer } from 'node:net';
import type { Config } from '../../config.ts';
import { readCredentials } from '../../credentials.ts';
import { reasonOf } from '../reason-of.ts';
import { addressesOf, checkFamilies } from './families.ts';
import { type Finding, ok, problem, warning } from './finding.ts';

const TIMEOUT_MS = 3_000;

export interface ServerState {
  findings: Finding[];
  running: boolean;
}

/**
 * Checks the port: free, used by Belfry, whose health is then checked, or by another program. `serverPid` is
 * the owner of the embedded database.
 */
export async function checkServer(config: Config, serverPid: number | undefined): Promise<ServerState> {
  const refusal = await tryPort(config);
  const address = refusal === 'EADDRINUSE' || config.PORT === 0 ? addressOf(config) : undefined;
  const program = address === undefined ? undefined : await probe(address);
  if (address !== undefined && program === 'belfry') {
    return {
      findings: [...ownership(config, address, serverPid), await checkHealth(address)],
      running: true,
    };
  }
  const findings = [checkPort(config, refusal)];
  if (serverPid !== undefined) {
    const advice = 'set the HOST and PORT that it was started with, or read its log';
    findings.push(
      warning(
        'server',
        `Belfry runs (pid ${serverPid}), but not on port ${config.PORT} of ${config.HOST}`,
        advice,
      ),
    );
  }
  return { findings, running: false };
}

/** Checks that PUBLIC_URL leads to Belfry, and that it suits links in e-mails. */
export async function checkPublicUrl(
  { PUBLIC_URL }: Config,
  { running, sendsEmail }: { running: boolean; sendsEmail: boolean },
): Promise<Finding[]> {
  const check = 'public address';
  if (PUBLIC_URL === undefined) {
    if (!sendsEmail) return [];
    const advice = 'set PUBLIC_URL to the address at which recipients reach this server';
    return [warning(check, 'not set, so links in e-mails work on this machine only', advice)];
  }
  const findings: Finding[] = [];
  if (sendsEmail && !PUBLIC_URL.startsWith('https:')) {
    const advice =
      'put a proxy with TLS before the server: mail programs offer one-click unsubscribe only for https';
    findings.push(warning(check, `${PUBLIC_URL} is not https`, advice));
  }
  if (!running) return [...findings, ok(check, `${PUBLIC_URL} is not checked while the server does not run`)];
  const program = await probe(PUBLIC_URL);
  const advice = 'check its name in DNS, the proxy before the server and its certificate';
  if (program === 'belfry')
    findings.push(ok(check, `${PUBLIC_URL} leads to a Belfry`), ...(await familiesOf(check, PUBLIC_URL)));
  else if (program === 'other')
    findings.push(problem(check, `${PUBLIC_URL} leads to something that is not Belfry`, advice));
  else findings.push(problem(check, `${PUBLIC_URL} cannot be reached from here (${program.reason})`, advice));
  return findings;
}

async function familiesOf(check: string, url: string): Promise<Finding[]> {
  const { hostname, protocol, port } = new URL(url);
  const host = hostname.replace(/^\[|\]$/g, '');
  const number = Number(port === '' ? (protocol === 'https:' ? 443 : 80) : port);
  return checkFamilies(check, { name: url, port: number, addresses: await addressesOf(host) });
}

/** The address of the server; with PORT=0 that of its last start, unless it wrote PUBLIC_URL. */
function addressOf({ HOST, PORT, PUBLIC_URL, DATA_DIR }: Config): string | undefined {
  if (PORT === 0) return PUBLIC_URL === undefined ? readCredentials(DATA_DIR)?.legacy_base_url : undefined;
  const host = HOST === '0.0.0.0' || HOST === '::' ? '127.0.0.1' : HOST;
  return `http://${host.includes(':') ? `[${host}]` : host}:${PORT}`;
}

type Probe = 'belfry' | 'other' | { reason: string };

/** The kind of program at an address, or why it cannot be reached. */
async function probe(address: string): Promise<Probe> {
  let response: Response;
  try {
    response = await get(`${address}/v2/openapi.json`);
  } catch (error) {
    return { reason: reasonOf(error) };
  }
  try {
    const document = (await response.json()) as { info?: { title?: unknown } } | null;
    return document?.info?.title === 'Belfry' ? 'belfry' : 'other';
  } catch {
    return 'other'; // it responds, but not as Belfry does
  }
}

/** Checks by the database whether the Belfry at the port has this data directory. */
function ownership(
  { DATABASE_URL, DATA_DIR }: Config,
  address: string,
  serverPid: number | undefined,
): Finding[] {
  if (DATABASE_URL !== undefined || serverPid !== undefined)
    return [ok('port', `${address} is used by Belfry`)];
  const advice = 'set the DATA_DIR of that one, or choose another port with PORT=…';
  return [problem('port', `${address} is used by a Belfry with other data than ${DATA_DIR}`, advice)];
}

async function checkHealth(address: string): Promise<Finding> {
  try {
    const response = await get(`${address}/readyz`);
    const { reason } = (await response.json()) as { reason?: string };
    if (response.ok) return ok('server', 'it runs and is ready');
    return problem(
      'server',
      `it runs but is not ready: ${reason ?? response.status}`,
      'read its log, and the findings about the database',
    );
  } catch (error) {
    return problem('server', `it does not report its health (${reasonOf(error)})`, 'read its log');
  }
}

/** Opens the port for a moment. Returns the error code if it cannot be opened. */
async function tryPort({ HOST, PORT }: Config): Promise<string | undefined> {
  const server = createServer();
  try {
    await once(server.listen({ host: HOST, port: PORT }), 'listening');
    return undefined;
  } catch (error) {
    return reasonOf(error);
  } finally {
    server.close();
  }
}

function checkPort({ HOST, PORT }: Config, refusal: string | undefined): Finding {
  if (refusal === undefined)
    return ok('port', PORT === 0 ? 'PORT=0: any free one' : `${PORT} of ${HOST} is free`);
  const message =
    refusal === 'EADDRINUSE'
      ? `${PORT} of ${HOST} is used by another program`
      : `${PORT} of ${HOST} cannot be opened (${refusal})`;
  return problem('port', message, ADVICE[refusal] ?? 'choose another HOST or PORT');
}

const ADVICE: Record<string, string> = {
  EADDRINUSE: 'stop that program, or choose another port with PORT=…',
  EACCES: 'choose a port above 1023 with PORT=…',
  EADDRNOTAVAIL: 'set HOST to an address of this machine',
  ENOTFOUND: 'set HOST to an address of this machine',
};

function get(url: string): Promise<Response> {
  return fetch(url, { signal: AbortSignal.timeout(TIMEOUT_MS) });
}

import { promises as dns, type LookupAddress } from 'node:dns';
import { connect } from 'node:net';
import { reasonOf } from '../reason-of.ts';
import { type Finding, warning } from './finding.ts';

const TIMEOUT_MS = 5_000;

/** A host and port with the addresses of the host. */
export interface Endpoint {
  /** For messages: `db.example.com:5432`. */
  name: string;
  port: number;
  addresses: readonly LookupAddress[];
}

/** The addresses of a host; none for an unknown name, which the connection reports. */
export function addressesOf(host: string): Promise<LookupAddress[]> {
  return dns.lookup(host, { all: true, order: 'verbatim' }).catch(() => []);
}

/**
 * Tries every address of a host with IPv4 and IPv6 addresses. Returns a warning if only one of the two can be
 * reached: programs use the first that connects, so a broken one causes occasional delays.
 */
export async function checkFamilies(check: string, { name, port, addresses }: Endpoint): Promise<Finding[]> {
  const families = Map.groupBy(addresses, ({ family }) => family);
  if (families.size < 2) return [];
  const results = await Promise.all(
    [...families].map(async ([family, members]) => ({ family, ...(await tryAll(members, port)) })),
  );
  if (!results.some(({ reached }) => reached)) return []; // unreachable, which another check reports
  return results
    .filter(({ reached }) => !reached)
    .map(({ family, failures }) =>
      warning(
        check,
        `${name} cannot be reached by IPv${family} (${failures.join(', ')}), ` +
          `only by IPv${family === 4 ? 6 : 4}`,
        `correct the route, or remove the ${family === 4 ? 'A' : 'AAAA'} record: ` +
          'each new connection may wait for it',
      ),
    );
}

/** Tries all addresses of a family; one is enough to reach it. */
async function tryAll(
  members: readonly LookupAddress[],
  port: number,
): Promise<{ reached: boolean; failures: string[] }> {
  const results = await Promise.all(
    members.map(async ({ address }) => ({ address, reason: await tryAddress(address, port) })),
  );
  const failures = results.flatMap(({ address, reason }) =>
    reason === undefined ? [] : [`${address}: ${reason}`],
  );
  return { reached: failures.length < results.length, failures };
}

/** Why an address does not accept a connection; undefined if it does. */
function tryAddress(host: string, port: number): Promise<string | undefined> {
  return new Promise((resolve) => {
    const socket = connect({ host, port });
    const end = (reason: string | undefined) => {
      socket.destroy();
      resolve(reason);
    };
    socket.setTimeout(TIMEOUT_MS, () => end('ETIMEDOUT'));
    socket.once('connect', () => end(undefined));
    socket.once('error', (error) => end(reasonOf(error)));
  });
}

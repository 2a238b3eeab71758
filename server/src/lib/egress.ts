/**
 * Guards every connection to a host that a customer can choose. Rejects loopback, private, link-local,
 * metadata and other special addresses, unless the operator opened their range.
 *
 * The decision depends on the address, never on the name. A name is resolved once and the connection goes to
 * a checked address, so DNS rebinding, an alias of an internal name, and an address in decimal, octal or
 * hexadecimal notation gain nothing. If a name has several addresses, only the permitted ones are used: a
 * private IPv6 range beside public IPv4 addresses is common and legitimate.
 */
import { promises as dns, type LookupAddress } from 'node:dns';
import { BlockList, isIP, type LookupFunction, connect as netConnect, type Socket } from 'node:net';
import { parseNetworks, plainAddress } from './networks.ts';

export type EgressGuard = {
  /** Returns the kind of a forbidden address; undefined for a permitted one. */
  check(address: string): string | undefined;
  /**
   * Resolves with the permitted addresses of the host. Rejects with EgressRefused if there are none, or with
   * the resolver's error.
   */
  resolve(host: string): Promise<LookupAddress[]>;
  /** Opens a TCP connection to one of the permitted addresses, without Nagle's delay. */
  connect(target: { host: string; port: number; timeoutMs: number }): Promise<Socket>;
  /**
   * `resolve` as the `lookup` option of `net`, `tls`, `http2` and undici. They do not call it for IP
   * addresses.
   */
  lookup: LookupFunction;
};

/**
 * The host has no permitted address. The message is for the customer who chose the host, and reveals nothing
 * of our network. `detail` is for the operator: the address, and the setting that would permit it.
 */
export class EgressRefused extends Error {
  override name = 'EgressRefused';
  readonly code = 'EGRESS_REFUSED';
  readonly detail: string;

  constructor(message: string, detail = message) {
    super(message);
    this.detail = detail;
  }
}

/**
 * Creates a guard that permits public addresses and the ranges of `allow`, a comma-separated list of CIDR
 * blocks. Throws if a block is malformed.
 */
export function createEgressGuard({
  allow = '',
  resolver = (host) => dns.lookup(host, { all: true, order: 'verbatim' }),
}: {
  allow?: string;
  /** By default the operating system's resolver, including its hosts file. */
  resolver?: (host: string) => Promise<LookupAddress[]>;
} = {}): EgressGuard {
  const allowed = parseNetworks(allow);
  const lookups = new Map<string, Promise<LookupAddress[]>>();

  /**
   * Looks up a name once for all concurrent callers. The operating system looks up two names at a time, and
   * needs 10 s or more per name if the name server is silent.
   */
  function lookUp(host: string): Promise<LookupAddress[]> {
    const underWay = lookups.get(host);
    if (underWay !== undefined) return underWay;
    const begun = resolver(host).finally(() => lookups.delete(host));
    lookups.set(host, begun);
    return begun;
  }

  function check(address: string): string | undefined {
    const plain = plainAddress(address);
    const family = isIP(plain);
    if (family === 0) return 'not an address';
    const kind = family === 4 ? kindOfIpv4(plain) : kindOfIpv6(plain);
    return kind === undefined || allowed(plain) ? undefined : kind;
  }

  async function resolve(host: string): Promise<LookupAddress[]> {
    if (host === '') throw new EgressRefused('the host is empty');
    const literal = isIP(host);
    const resolved = literal === 0 ? await lookUp(host) : [{ address: host, family: literal }];
    const usable = resolved.filter(({ address }) => check(address) === undefined);
    if (usable.length === 0) throw refusal(host, resolved, check);
    return usable;
  }

  async function connect({
    host,
    port,
    timeoutMs,
  }: {
    host: string;
    port: number;
    timeoutMs: number;
  }): Promise<Socket> {
    const deadline = AbortSignal.timeout(timeoutMs);
    const addresses = await beforeAbort(deadline, resolve(host), () =>
      timedOut(`looking up ${host}`, timeoutMs),
    );
    const socket = await open({ host, port, addresses, deadline, timeoutMs });
    // Defence in depth: the addresses were checked already, this checks the actual peer.
    const peer = socket.remoteAddress ?? '';
    const kind = check(peer);
    if (kind === undefined) return socket;
    socket.destroy();
    throw new EgressRefused(notPublic(host), `${host} was reached at ${peer}, ${kind}`);
  }

  const lookup: LookupFunction = (host, options, callback) => {
    resolve(host).then(
      (addresses) => {
        const wanted = options.family === 4 || options.family === 6 ? options.family : undefined;
        const fitting =
          wanted === undefined ? addresses : addresses.filter(({ family }) => family === wanted);
        const first = fitting[0] ?? addresses[0];
        if (options.all) callback(null, fitting.length > 0 ? fitting : addresses);
        else callback(null, first?.address ?? '', first?.family);
      },
      (error: NodeJS.ErrnoException) => callback(error, ''),
    );
  };

  return { check, resolve, connect, lookup };
}

// As browsers do (RFC 8305, section 5).
const NEXT_ATTEMPT_MS = 250;

/**
 * Connects to the first address that responds. The next attempt begins when one has failed, or has taken a
 * while, and then both continue. Node's own `autoSelectFamily` gives each address up after 250 ms: a host
 * that is farther away cannot be reached if its last address has no route.
 */
function open({
  host,
  port,
  addresses,
  deadline,
  timeoutMs,
}: {
  host: string;
  port: number;
  addresses: readonly LookupAddress[];
  deadline: AbortSignal;
  timeoutMs: number;
}): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const left = alternating(addresses);
    const attempts = new Set<Socket>();
    let timer: NodeJS.Timeout | undefined;
    let failure: Error | undefined;
    const settle = (): void => {
      clearTimeout(timer);
      deadline.removeEventListener('abort', onTimeout);
      left.length = 0;
      for (const attempt of attempts) attempt.destroy();
    };
    const onTimeout = (): void => {
      settle();
      reject(timedOut(`connecting to ${host}:${port}`, timeoutMs));
    };
    const attemptNext = (): void => {
      clearTimeout(timer);
      const next = left.shift();
      if (next === undefined) return;
      const socket = netConnect({ host: next.address, port, noDelay: true });
      const onError = (error: Error): void => {
        attempts.delete(socket);
        failure ??= error;
        if (left.length > 0) attemptNext();
        else if (attempts.size === 0) {
          settle();
          reject(failed(`connecting to ${host}:${port}`, failure));
        }
      };
      attempts.add(socket);
      socket.once('error', onError);
      socket.once('connect', () => {
        attempts.delete(socket);
        socket.off('error', onError);
        settle();
        resolve(socket);
      });
      if (left.length > 0) timer = setTimeout(attemptNext, NEXT_ATTEMPT_MS);
    };
    if (deadline.aborted) return onTimeout();
    deadline.addEventListener('abort', onTimeout, { once: true });
    attemptNext();
  });
}

/** Returns the addresses with the families in turns, so that a family without a route costs one attempt. */
function alternating(addresses: readonly LookupAddress[]): LookupAddress[] {
  const first = addresses.filter(({ family }) => family === addresses[0]?.family);
  const others = addresses.filter(({ family }) => family !== addresses[0]?.family);
  return Array.from({ length: Math.max(first.length, others.length) }, (_, index) =>
    [first[index], others[index]].filter((address) => address !== undefined),
  ).flat();
}

function timedOut(what: string, timeoutMs: number): Error {
  return Object.assign(new Error(`${what} took longer than ${timeoutMs} ms`), { code: 'ETIMEDOUT' });
}

/**
 * Returns an error without the address: node's message contains it, and the customer may know only the name.
 */
function failed(what: string, error: NodeJS.ErrnoException): Error {
  const code = error.code ?? 'UNKNOWN';
  return Object.assign(new Error(`${what} failed: ${code}`, { cause: error }), { code });
}

/** Resolves like the promise, or rejects with `error()` if the signal aborts first. */
function beforeAbort<T>(signal: AbortSignal, promise: Promise<T>, error: () => Error): Promise<T> {
  return new Promise((resolve, reject) => {
    const onAbort = (): void => reject(error());
    signal.addEventListener('abort', onAbort, { once: true });
    promise.then(resolve, reject).finally(() => signal.removeEventListener('abort', onAbort));
  });
}

function refusal(host: string, resolved: LookupAddress[], check: EgressGuard['check']): EgressRefused {
  const first = resolved[0];
  if (first === undefined) return new EgressRefused(`${host} has no address`);
  const address = plainAddress(first.address);
  const range = `${address}/${isIP(address) === 4 ? 32 : 128}`;
  const kind = check(first.address);
  const advice = `set EGRESS_ALLOW=${range} (or its network) to permit it`;
  if (host === first.address) return new EgressRefused(`${host} is ${kind}; ${advice}`);
  return new EgressRefused(notPublic(host), `${host} resolves to ${address}, ${kind}; ${advice}`);
}

function notPublic(host: string): string {
  return `${host} does not resolve to a public address, and EGRESS_ALLOW of the server permits no other`;
}

/** IANA's registry of special-purpose IPv4 addresses; all others are public. */
const IPV4_KINDS: [block: string, kind: string][] = [
  ['0.0.0.0/8', 'an unspecified address'],
  ['10.0.0.0/8', 'a private address'],
  ['100.64.0.0/10', 'a carrier-grade NAT address'],
  ['127.0.0.0/8', 'a loopback address'],
  ['168.63.129.16/32', 'a cloud metadata address'], // of Azure, the only one in public address space
  ['169.254.0.0/16', 'a link-local or cloud metadata address'],
  ['172.16.0.0/12', 'a private address'],
  ['192.0.0.0/24', 'a protocol assignment address'],
  ['192.0.2.0/24', 'a documentation address'],
  ['192.88.99.0/24', 'a 6to4 relay address'],
  ['192.168.0.0/16', 'a private address'],
  ['198.18.0.0/15', 'a benchmarking address'],
  ['198.51.100.0/24', 'a documentation address'],
  ['203.0.113.0/24', 'a documentation address'],
  ['224.0.0.0/4', 'a multicast address'],
  ['255.255.255.255/32', 'a broadcast address'],
  ['240.0.0.0/4', 'a reserved address'],
];

/** Special ranges of IPv6. Only 2000::/3 is public, except for these; the others are here for the message. */
const IPV6_KINDS: [block: string, kind: string][] = [
  ['::/128', 'an unspecified address'],
  ['::1/128', 'a loopback address'],
  ['64:ff9b::/96', 'a NAT64 address'],
  ['64:ff9b:1::/48', 'a NAT64 address'],
  ['fc00::/7', 'a private address'],
  ['fe80::/10', 'a link-local address'],
  ['ff00::/8', 'a multicast address'],
  ['2001::/32', 'a Teredo address'],
  ['2001:db8::/32', 'a documentation address'],
  ['2001::/23', 'a protocol assignment address'],
  ['2002::/16', 'a 6to4 address'],
  ['3fff::/20', 'a documentation address'],
];

const ipv4Kinds = IPV4_KINDS.map(compile('ipv4'));
const ipv6Kinds = IPV6_KINDS.map(compile('ipv6'));
const globalIpv6 = compile('ipv6')(['2000::/3', 'a global address']).block;

function compile(family: 'ipv4' | 'ipv6') {
  return ([cidr, kind]: [string, string]): { block: BlockList; kind: string } => {
    const [address = '', prefix = ''] = cidr.split('/');
    const block = new BlockList();
    block.addSubnet(address, Number(prefix), family);
    return { block, kind };
  };
}

function kindOfIpv4(address: string): string | undefined {
  return ipv4Kinds.find(({ block }) => block.check(address, 'ipv4'))?.kind;
}

function kindOfIpv6(address: string): string | undefined {
  const special = ipv6Kinds.find(({ block }) => block.check(address, 'ipv6'))?.kind;
  if (special !== undefined) return special;
  return globalIpv6.check(address, 'ipv6') ? undefined : 'a reserved address';
}

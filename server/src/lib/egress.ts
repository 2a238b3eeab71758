/**
 * The door through which every connection to a host that a customer can name has to leave. Loopback, private,
 * link-local, metadata and the other special addresses are refused, unless the operator opens their range.
 *
 * What is judged is the address, never the name: a name is resolved once, and the connection is made to an
 * address that was judged, so a name that resolves differently the next moment (DNS rebinding), an alias of
 * an internal name, or an address in decimal, octal or hex dress gains nothing. When a name has several
 * addresses the refused ones are left out and the rest used: networks with a private IPv6 range beside public
 * IPv4 are common and honest.
 */
import { promises as dns, type LookupAddress } from 'node:dns';
import { BlockList, isIP, type LookupFunction, connect as netConnect, type Socket } from 'node:net';
import { parseNetworks, plainAddress } from './networks.ts';

export type EgressGuard = {
  /** What kind of address this is if it may not be connected to, `undefined` if it may. */
  check(address: string): string | undefined;
  /**
   * Every address of the host that may be connected to. Throws EgressRefused when none may, and the
   * resolver's error.
   */
  resolve(host: string): Promise<LookupAddress[]>;
  /** A TCP connection to one of the addresses that may be connected to, without Nagle's delay. */
  connect(target: { host: string; port: number; timeoutMs: number }): Promise<Socket>;
  /**
   * `resolve` in the shape that `net`, `tls`, `http2` and undici take as `lookup`. They skip it for a literal
   * address.
   */
  lookup: LookupFunction;
};

/**
 * The host has no address that may be connected to. The message is for whoever named the host, and tells
 * nothing of where the name leads in our network; `detail` is for the operator: the address, and the setting
 * that would permit it.
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
 * A guard that permits public addresses and the ranges of `allow`, a comma-separated list of CIDR blocks.
 * Throws on a malformed one.
 */
export function createEgressGuard({
  allow = '',
  resolver = (host) => dns.lookup(host, { all: true, order: 'verbatim' }),
}: {
  allow?: string;
  /** The operating system's, with its hosts file; tests give one that changes its mind. */
  resolver?: (host: string) => Promise<LookupAddress[]>;
} = {}): EgressGuard {
  const allowed = parseNetworks(allow);
  const lookups = new Map<string, Promise<LookupAddress[]>>();

  /**
   * The operating system looks up two names at a time, and where a name server is silent that takes it 10 s
   * and more: however many wait for one name, the others wait for a single look-up of it.
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
    const answers = literal === 0 ? await lookUp(host) : [{ address: host, family: literal }];
    const usable = answers.filter(({ address }) => check(address) === undefined);
    if (usable.length === 0) throw refusal(host, answers, check);
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
    // The addresses were judged already; this catches whatever else might ever come between us and the peer.
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

function open({
  host,
  port,
  addresses,
  deadline,
  timeoutMs,
}: {
  host: string;
  port: number;
  addresses: LookupAddress[];
  deadline: AbortSignal;
  timeoutMs: number;
}): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = netConnect({
      host,
      port,
      noDelay: true,
      autoSelectFamily: true, // several addresses: try them in turn, as a browser does (RFC 8305)
      lookup: (_host, options, callback) => {
        if (options.all) callback(null, addresses);
        else callback(null, addresses[0]?.address ?? '', addresses[0]?.family);
      },
    });
    const settle = (): void => {
      deadline.removeEventListener('abort', onTimeout);
      socket.off('connect', onConnect);
      socket.off('error', onError);
    };
    const onConnect = (): void => {
      settle();
      resolve(socket);
    };
    const onError = (error: Error): void => {
      settle();
      reject(failed(`connecting to ${host}:${port}`, error));
    };
    const onTimeout = (): void => {
      settle();
      socket.on('error', () => {}); // a late one has nobody left to tell
      socket.destroy();
      reject(timedOut(`connecting to ${host}:${port}`, timeoutMs));
    };
    socket.once('connect', onConnect);
    socket.once('error', onError);
    if (deadline.aborted) onTimeout();
    else deadline.addEventListener('abort', onTimeout, { once: true });
  });
}

function timedOut(what: string, timeoutMs: number): Error {
  return Object.assign(new Error(`${what} took longer than ${timeoutMs} ms`), { code: 'ETIMEDOUT' });
}

/**
 * Node's own message names the address, also where it is none of the business of whoever knows the name
 * alone.
 */
function failed(what: string, error: NodeJS.ErrnoException): Error {
  const code = error.code ?? 'UNKNOWN';
  return Object.assign(new Error(`${what} failed: ${code}`, { cause: error }), { code });
}

/** The promise's value, or the error when the signal fires first; what comes later is dropped. */
function beforeAbort<T>(signal: AbortSignal, promise: Promise<T>, error: () => Error): Promise<T> {
  return new Promise((resolve, reject) => {
    const onAbort = (): void => reject(error());
    signal.addEventListener('abort', onAbort, { once: true });
    promise.then(resolve, reject).finally(() => signal.removeEventListener('abort', onAbort));
  });
}

function refusal(host: string, answers: LookupAddress[], check: EgressGuard['check']): EgressRefused {
  const first = answers[0];
  if (first === undefined) return new EgressRefused(`${host} has no address`);
  const address = plainAddress(first.address);
  const range = `${address}/${isIP(address) === 4 ? 32 : 128}`;
  const kind = check(first.address);
  const advice = `set EGRESS_ALLOW=${range} (or its network) to permit it`;
  if (host === first.address) return new EgressRefused(`${host} is ${kind}; ${advice}`);
  return new EgressRefused(notPublic(host), `${host} resolves to ${address}, ${kind}; ${advice}`);
}

function notPublic(host: string): string {
  return `${host} does not resolve to a public address`;
}

/** IPv4 in IPv6's clothes (`::ffff:127.0.0.1`, `::ffff:7f00:1`) is judged as the IPv4 address it reaches. */
/** From IANA's registry of special-purpose IPv4 addresses; the rest is the public internet. */
const IPV4_KINDS: [block: string, kind: string][] = [
  ['0.0.0.0/8', 'an unspecified address'],
  ['10.0.0.0/8', 'a private address'],
  ['100.64.0.0/10', 'a carrier-grade NAT address'],
  ['127.0.0.0/8', 'a loopback address'],
  ['168.63.129.16/32', 'a cloud metadata address'], // Azure's, the only one that lies among public addresses
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

/** Only 2000::/3 is the public internet, less these; the others are named for the message's sake. */
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

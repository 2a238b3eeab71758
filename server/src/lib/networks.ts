import { BlockList, isIP, SocketAddress } from 'node:net';

/**
 * Parses networks: CIDR blocks and single addresses, separated by commas. Returns a function that tests
 * whether an address is in one of them. Throws if an entry is malformed.
 */
export function parseNetworks(text: string): (address: string) => boolean {
  const list = new BlockList();
  for (const entry of text
    .split(',')
    .map((part) => part.trim())
    .filter((part) => part !== '')) {
    const [, address = '', bits] = /^([^/]+)(?:\/(\d{1,3}))?$/.exec(entry) ?? [];
    const family = isIP(address);
    const width = family === 4 ? 32 : 128;
    const prefix = bits === undefined ? width : Number(bits);
    if (family === 0 || prefix > width)
      throw new Error(`"${entry}" is not a CIDR block such as 10.0.0.0/8 or fd00::/8`);
    list.addSubnet(address, prefix, family === 4 ? 'ipv4' : 'ipv6');
  }
  return (address) => {
    const plain = plainAddress(address);
    const family = isIP(plain);
    return family !== 0 && list.check(plain, family === 4 ? 'ipv4' : 'ipv6');
  };
}

/** Returns the canonical form of an address: without zone, and IPv4-mapped IPv6 as IPv4. */
export function plainAddress(address: string): string {
  if (isIP(address) !== 6) return address;
  const canonical = new SocketAddress({ address: address.replace(/%.*$/, ''), family: 'ipv6' }).address;
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(canonical);
  return mapped?.[1] ?? canonical;
}

import { BlockList, isIP, SocketAddress } from 'node:net';

/**
 * A test for addresses that lie in one of the networks: CIDR blocks and single addresses, separated by
 * commas. Throws on a malformed one.
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

/**
 * The one spelling of an address: an IPv4 address that is dressed as IPv6 is undressed, and a zone is left
 * out.
 */
export function plainAddress(address: string): string {
  if (isIP(address) !== 6) return address;
  const canonical = new SocketAddress({ address: address.replace(/%.*$/, ''), family: 'ipv6' }).address;
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(canonical);
  return mapped?.[1] ?? canonical;
}

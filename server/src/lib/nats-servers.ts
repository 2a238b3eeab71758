/** NATS servers and the credentials for all of them. */
export interface NatsServers {
  /** `host:port` each. */
  servers: readonly string[];
  tls: boolean;
  user?: string;
  pass?: string;
  token?: string;
}

const EXAMPLE = 'such as nats://user:password@host:4222 or tls://token@host';

/**
 * Parses addresses that are separated by commas. Throws an error whose message has none of their secrets.
 */
export function natsServers(text: string): NatsServers {
  const urls = text.split(',').map((part) => parse(part.trim()));
  const [first] = urls;
  if (first === undefined) throw new Error(`must be addresses of NATS, ${EXAMPLE}`);
  if (urls.some(({ protocol }) => protocol !== first.protocol))
    throw new Error('must have nats:// addresses or tls:// addresses, not both');
  const named = urls.filter(({ username, password }) => username !== '' || password !== '');
  const { username = '', password = '' } = named[0] ?? {};
  if (named.some((url) => url.username !== username || url.password !== password))
    throw new Error('must have the same user, password or token in all addresses');
  return {
    servers: urls.map(({ hostname, port }) => `${hostname}:${port || '4222'}`),
    tls: first.protocol === 'tls:',
    ...(username === '' ? {} : credentials(decodeURIComponent(username), decodeURIComponent(password))),
  };
}

function credentials(user: string, pass: string): Pick<NatsServers, 'user' | 'pass' | 'token'> {
  return pass === '' ? { token: user } : { user, pass };
}

function parse(text: string): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url === undefined || !['nats:', 'tls:'].includes(url.protocol) || url.hostname === '')
    throw new Error(`must be addresses of NATS separated by commas, ${EXAMPLE}`);
  if (url.username === '' && url.password !== '') throw new Error('has a password without a user');
  if (!['', '/'].includes(url.pathname) || url.search !== '' || url.hash !== '')
    throw new Error('must be addresses without a path or parameters');
  try {
    decodeURIComponent(url.username);
    decodeURIComponent(url.password);
  } catch {
    throw new Error('has a user or password that is not percent-encoded');
  }
  return url;
}

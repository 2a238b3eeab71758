import type { ConnectionSettings } from '../../src/db/client.ts';

/**
 * The settings in a URL `postgres://user:password@host:port/database`, with the usual defaults. `?host=` may
 * name the folder of a socket instead.
 */
export function settingsOfUrl(url: string): ConnectionSettings {
  const { hostname, port, username, password, pathname, searchParams } = new URL(url);
  return {
    host: searchParams.get('host') ?? hostname,
    port: Number(port || 5432),
    user: decodeURIComponent(username),
    ...(password !== '' && { password: decodeURIComponent(password) }),
    database: pathname.slice(1) || 'postgres',
  };
}

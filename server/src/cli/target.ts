import { baseUrlOf, credentials, type Target } from './api.ts';

/** Which server a command speaks to, as its options say. */
export interface ServerOptions {
  url?: string;
  jwt?: string;
}

/**
 * The server and the Project JWT of the options; what they leave out is in the credentials that the server
 * wrote.
 */
export function projectTarget({ url, jwt }: ServerOptions): Target {
  if (url !== undefined && jwt !== undefined) return { baseUrl: baseUrlOf(url), jwt };
  const file = credentials('--url and --jwt');
  return { baseUrl: url === undefined ? file.base_url : baseUrlOf(url), jwt: jwt ?? file.project_jwt };
}

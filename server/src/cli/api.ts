import { readConfig } from '../config.ts';
import { type CredentialsFile, findCredentials } from '../credentials.ts';
import { MISSING_ROLE } from '../errors.ts';
import { CommandError } from './command.ts';
import { reasonOf } from './reason-of.ts';

/** A running server, and the token for requests to it. */
export interface Target {
  /** Ends with `/v2`. */
  baseUrl: string;
  jwt: string;
}

/** An error response. */
export class ApiError extends CommandError {
  readonly status: number;
  readonly retryAfterMs: number | undefined;
  /** The role that the node lacks, if that is the reason. */
  readonly missingRole: string | undefined;
  /** Whether it has the form of an error of Belfry. Otherwise another program responded. */
  readonly isOfBelfry: boolean;

  constructor(
    status: number,
    problems: [string, ...string[]],
    {
      retryAfterMs,
      missingRole,
      isOfBelfry = true,
    }: { retryAfterMs?: number | undefined; missingRole?: string; isOfBelfry?: boolean } = {},
  ) {
    super(...problems);
    this.status = status;
    this.retryAfterMs = retryAfterMs;
    this.missingRole = missingRole;
    this.isOfBelfry = isOfBelfry;
  }
}

/** Whether the node looked for something that does not exist. */
export function isNotFound(error: unknown): boolean {
  if (!(error instanceof ApiError)) return false;
  return error.status === 404 && error.missingRole === undefined && error.isOfBelfry;
}

/** The credentials that the server wrote. The options --url and --jwt replace them. */
export function credentials(): CredentialsFile {
  const { DATA_DIR } = readConfig();
  const found = findCredentials(DATA_DIR);
  const path = `${DATA_DIR}/credentials.json`;
  switch (found.kind) {
    case 'found':
      return found.file;
    case 'missing':
      throw new CommandError(
        `there is no ${path}: start or restart the server (npm start), set DATA_DIR, or use --url and --jwt`,
      );
    case 'damaged':
      throw new CommandError(
        `${path} is damaged: restart the server, which writes it again, or use --url and --jwt`,
      );
    case 'unreadable':
      throw new CommandError(
        `${path} cannot be read (${found.code}): run it as the user of the server, or use --url and --jwt`,
      );
  }
}

/** The address of the API; `url` may end with `/v2`. */
export function baseUrlOf(url: string): string {
  if (!URL.canParse(url) || !/^https?:$/.test(new URL(url).protocol)) {
    throw new CommandError(`${url} is not the address of a server: use one such as http://127.0.0.1:3000`);
  }
  return `${url.replace(/\/+$/, '').replace(/\/v2$/, '')}/v2`;
}

/** Sends a request and returns the response. Throws a `CommandError` with all problems that it reports. */
export async function request(
  { baseUrl, jwt }: Target,
  path: string,
  { headers, ...init }: RequestInit & { headers?: Record<string, string> } = {},
): Promise<Response> {
  let response: Response;
  try {
    response = await fetch(`${baseUrl}${path}`, {
      ...init,
      headers: { authorization: `Bearer ${jwt}`, ...headers },
    });
  } catch (error) {
    if (init.signal?.aborted) throw error;
    throw new CommandError(unreachable(baseUrl, error));
  }
  if (response.ok && hasMediaType(response, headers?.accept ?? 'application/json')) return response;
  const retryAfter = Number(response.headers.get('retry-after') ?? Number.NaN);
  const retryAfterMs = Number.isFinite(retryAfter) ? retryAfter * 1000 : undefined;
  const messages = messagesIn(await response.text());
  const role = response.headers.get(MISSING_ROLE);
  if (role === null)
    throw new ApiError(response.status, problemsIn(response, messages), {
      retryAfterMs,
      isOfBelfry: messages.length > 0,
    });
  throw new ApiError(
    response.status,
    [
      `the node at ${addressOf(baseUrl)} does not have the role ${role}: ` +
        'use --url with the address of one that has, or of the proxy before all nodes',
    ],
    { missingRole: role },
  );
}

/** Another program may respond with 200, such as a login page of a proxy. */
function hasMediaType({ status, headers }: Response, wanted: string): boolean {
  return status === 204 || (headers.get('content-type') ?? '').startsWith(wanted);
}

function problemsIn(response: Response, messages: readonly string[]): [string, ...string[]] {
  const [first, ...more] = messages.map((message) => `${message} (${response.status})`);
  return first === undefined
    ? [`${response.url} responded with ${response.status}, and not as Belfry does: check the address`]
    : [first, ...more];
}

function messagesIn(text: string): string[] {
  try {
    const { errors } = JSON.parse(text) as { errors?: unknown };
    if (!Array.isArray(errors)) return [];
    return errors.map((error: unknown) => String((error as { message?: unknown } | null)?.message));
  } catch {
    return []; // another program; the caller reports it
  }
}

function unreachable(baseUrl: string, error: unknown): string {
  const address = addressOf(baseUrl);
  const code = reasonOf(error);
  if (code === 'ECONNREFUSED')
    return `no server is running at ${address}: start it with npm start, or use another with --url`;
  return `the server at ${address} cannot be reached (${code}): check the address, or use another with --url`;
}

function addressOf(baseUrl: string): string {
  return baseUrl.replace(/\/v2$/, '');
}

/** The options for the server of a command. */
export interface ServerOptions {
  url?: string;
  jwt?: string;
}

/** The server and Project JWT of the options, by default those of the credentials that the server wrote. */
export function projectTarget({ url, jwt }: ServerOptions): Target {
  if (url !== undefined && jwt !== undefined) return { baseUrl: baseUrlOf(url), jwt };
  const file = credentials();
  return { baseUrl: url === undefined ? file.base_url : baseUrlOf(url), jwt: jwt ?? file.project_jwt };
}

import type { IncomingHttpHeaders, IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import type { FastifyInstance } from 'fastify';
import { LRUCache } from 'lru-cache';
import type { CellDirectory } from '../domain/setup/cells/directory.ts';
import { ClientError } from '../errors.ts';
import { cacheLimit } from '../lib/cache-limit.ts';
import type { HttpContext } from './context.ts';
import { type ProjectReader, projectReader } from './named-project.ts';
import { GRAPHQL_PATH } from './realtime/socket.ts';
import { pathOf, refuse } from './realtime/web-sockets.ts';
import type { App, OtherCells } from './route.ts';

/** A cell besides the default one on this node. */
export interface ServedCell {
  fastify: FastifyInstance;
  context: HttpContext;
}

// About 200 bytes each.
const MAX_WEBHOOKS = 10_000;

type Arrived = { event: 'request'; args: [ServerResponse] } | { event: 'upgrade'; args: [Duplex, Buffer] };

/**
 * Gives each request to the HTTP server of its project's cell. The server of the default cell accepts all
 * connections. It looks at what a request says about its project and verifies nothing: the cell does, so a
 * request with an invalid credential finds nothing in any cell.
 */
export class CellRouter implements OtherCells {
  readonly #directory: Pick<CellDirectory, 'find'>;
  readonly #projectOf: ProjectReader;
  readonly #served = new Map<string, ServedCell>();
  /** The cells that are in the directory. */
  #known: readonly string[] = [];
  #routes = false;
  readonly ofWebhooks = new LRUCache<string, HttpContext>(cacheLimit(MAX_WEBHOOKS));

  constructor({ directory, brand }: { directory: Pick<CellDirectory, 'find'>; brand: string }) {
    this.#directory = directory;
    this.#projectOf = projectReader(brand);
  }

  /** Serves a cell. */
  serve(name: string, cell: ServedCell): void {
    this.#served.set(name, cell);
  }

  /** Ends that. Requests of its projects get a 503 from now on. */
  drop(name: string): void {
    this.#served.delete(name);
  }

  /** Sets which cells there are. Requests for those that are not served get a 503. */
  setKnown(names: readonly string[]): void {
    this.#known = names;
  }

  get missing(): readonly string[] {
    return this.#known.filter((name) => !this.#served.has(name));
  }

  get contexts(): HttpContext[] {
    return [...this.#served.values()].map(({ context }) => context);
  }

  /** Routes the requests of a server from now on. Without other cells, they do not pass through here. */
  route(server: Server): void {
    if (this.#routes) return;
    this.#routes = true;
    for (const event of ['request', 'upgrade'] as const) {
      const own = server.listeners(event) as ((...args: unknown[]) => void)[];
      const handle = (request: IncomingMessage, ...args: unknown[]) => {
        for (const listener of own) listener.call(server, request, ...args);
      };
      server.removeAllListeners(event);
      server.on(event, (request: IncomingMessage, ...args: unknown[]) => {
        const arrived = { event, args } as Arrived;
        // The credential of a GraphQL subscription is in its first message.
        if (event === 'upgrade' && pathOf(request) === GRAPHQL_PATH) handle(request, ...args);
        else this.#pass(request, arrived, () => handle(request, ...args));
      });
    }
  }

  async graphqlOf(headers: IncomingHttpHeaders): Promise<App | undefined> {
    if (!this.#routes) return undefined;
    return (await this.#cellOf({ headers }))?.fastify.graphqlApp;
  }

  /** Like an event handler, it returns before the cell of an unknown project is known. */
  #pass(request: IncomingMessage, arrived: Arrived, handle: () => void): void {
    const toCell = (cell: ServedCell | undefined) => {
      if (cell === undefined) handle();
      else cell.fastify.server.emit(arrived.event, request, ...arrived.args);
    };
    const found = this.#find(request);
    if (found === undefined) {
      handle();
      return;
    }
    request.socket.on('error', ignore); // an upgraded connection has no other listener meanwhile
    found
      .then(toCell, (error: unknown) => reject(request, arrived, unavailable(error)))
      .finally(() => request.socket.off('error', ignore));
  }

  async #cellOf(request: Parameters<ProjectReader>[0]): Promise<ServedCell | undefined> {
    try {
      return await this.#find(request);
    } catch (error) {
      throw unavailable(error);
    }
  }

  /** Returns undefined at once if the request belongs to the default cell. */
  #find(request: Parameters<ProjectReader>[0]): Promise<ServedCell | undefined> | undefined {
    const project = this.#projectOf(request);
    if (project === undefined) return undefined;
    const found = this.#directory.find(project);
    return found === undefined ? undefined : Promise.resolve(found).then((name) => this.#servedOf(name));
  }

  #servedOf(name: string | undefined): ServedCell | undefined {
    if (name === undefined) return undefined;
    const cell = this.#served.get(name);
    if (cell === undefined) throw new Error(`the cell ${name} is not open`);
    return cell;
  }
}

const ignore = () => {};

function unavailable(cause: unknown): ClientError {
  const error = new ClientError('service_unavailable', [], { 'retry-after': '1' });
  error.cause = cause;
  return error;
}

/** Responds for a cell that is not open. */
function reject(request: IncomingMessage, arrived: Arrived, error: ClientError): void {
  if (arrived.event === 'upgrade') {
    refuse(arrived.args[0], error);
    return;
  }
  const [response] = arrived.args;
  request.resume();
  const headers = {
    'content-type': 'application/json; charset=utf-8',
    'cache-control': 'no-store',
    'access-control-allow-origin': '*',
    connection: 'close', // without waiting for the rest of the body
    ...error.headers,
  };
  response.writeHead(error.status, headers).end(JSON.stringify({ errors: error.problems }));
}

import { BelfryError } from './errors.ts';
import { EventStream } from './event-stream.ts';
import type { ClientOptions, RequestOptions, StreamOptions } from './options.ts';
import { PageRequest } from './page-request.ts';
import { type ApiRequest, createTransport, type Transport } from './transport.ts';

/** The base of both clients: requests by method and path. */
export class Client {
  readonly #transport: Transport;

  constructor(options: ClientOptions) {
    const callFetch = options.fetch ?? ((...parameters: Parameters<typeof fetch>) => fetch(...parameters));
    const fetchVersion2: typeof fetch = async (input, init) => {
      const response = await callFetch(input, init);
      if (!isVersion1(response)) return response;
      const { status } = response;
      await response.body?.cancel();
      const text = `${init?.method} ${input}: ${status}, but from version 1 of the API: is baseUrl right?`;
      throw new BelfryError(`${text} Usually it ends in /v2.`, { code: 'invalid_response', status });
    };
    this.#transport = createTransport({ ...options, fetch: fetchVersion2 });
  }

  /**
   * Calls the API by method and path, with the same retries and errors as the other methods. For operations
   * that a newer server has and this version does not.
   */
  async request<Reply = unknown>(request: ApiRequest, options?: RequestOptions): Promise<Reply> {
    const { method, path, query = {} } = request;
    // A missing id would otherwise turn "delete this one" into "delete all".
    for (const [name, value] of Object.entries(query))
      if (value === undefined && method === 'DELETE')
        throw new TypeError(`${method} ${path}: ${name} is undefined; leave it out to mean all`);
    return this.#transport.send(request, options) as Promise<Reply>;
  }

  protected list<Item>(path: string, query?: object, options?: RequestOptions): PageRequest<Item> {
    return new PageRequest(this.#transport, path, query, options);
  }

  protected stream<Event>(path: string, query?: object, options?: StreamOptions): EventStream<Event> {
    return new EventStream(this.#transport, path, query, options);
  }
}

/** Encodes a value as one segment of a path. Throws if it would change the path. */
export function segment(value: string): string {
  // An empty id would address the list, and dots the path above.
  if (typeof value !== 'string' || value === '' || value === '.' || value === '..')
    throw new TypeError(`${JSON.stringify(value)} cannot be part of a path: an id or a key was expected`);
  return encodeURIComponent(value);
}

/**
 * Version 1 accepts the same tokens, and is below an address without `/v2`. Each of its responses links to
 * the guide for its clients.
 */
function isVersion1({ headers }: Response): boolean {
  return headers.get('link')?.includes('/docs/from-v1>') ?? false;
}

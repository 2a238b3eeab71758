import { BelfryError } from './errors.ts';
import type { RequestOptions } from './options.ts';
import type { Transport } from './transport.ts';

/** A page of a list in the API, newest first. */
export interface PageData<Item> {
  data: Item[];
  links: { first: string; next: string | null; prev: string | null };
}

/** A page with links to its neighbours. */
export interface Page<Item> extends PageData<Item> {
  /** Requests the page of older records; `undefined` on the last page. */
  next(): PageRequest<Item> | undefined;
  /** Requests the page of newer records; `undefined` on the first page. */
  prev(): PageRequest<Item> | undefined;
}

/**
 * A list. `await` returns one page. `for await` returns every record from there on, and fetches a page at a
 * time. Nothing is requested before.
 */
export class PageRequest<Item> implements Promise<Page<Item>>, AsyncIterable<Item> {
  readonly [Symbol.toStringTag] = 'PageRequest';
  readonly #transport: Transport;
  readonly #path: string;
  readonly #query: object;
  readonly #options: RequestOptions | undefined;
  #page: Promise<Page<Item>> | undefined;

  constructor(transport: Transport, path: string, query: object = {}, options?: RequestOptions) {
    this.#transport = transport;
    this.#path = path;
    this.#query = query;
    this.#options = options;
  }

  // biome-ignore lint/suspicious/noThenProperty: makes it a promise
  then<Result = Page<Item>, Failure = never>(
    onPage?: ((page: Page<Item>) => Result | PromiseLike<Result>) | null,
    // biome-ignore lint/suspicious/noExplicitAny: as in the type of every promise
    onError?: ((error: any) => Failure | PromiseLike<Failure>) | null,
  ): Promise<Result | Failure> {
    this.#page ??= this.#fetch();
    return this.#page.then(onPage, onError);
  }

  catch<Failure = never>(
    // biome-ignore lint/suspicious/noExplicitAny: as in the type of every promise
    onError?: ((error: any) => Failure | PromiseLike<Failure>) | null,
  ): Promise<Page<Item> | Failure> {
    return this.then(null, onError);
  }

  finally(onEnd?: (() => void) | null): Promise<Page<Item>> {
    return this.then().finally(onEnd);
  }

  /**
   * Every record from here on: older ones, or newer ones if the query has `ending_before`.
   */
  async *[Symbol.asyncIterator](): AsyncGenerator<Item, void, undefined> {
    for await (const { data } of this.pages()) yield* this.#isAscending ? data.toReversed() : data;
  }

  /** The same as pages. */
  async *pages(): AsyncGenerator<Page<Item>, void, undefined> {
    let page: Page<Item> | undefined = await this;
    while (page !== undefined) {
      yield page;
      page = await (this.#isAscending ? page.prev() : page.next());
    }
  }

  get #isAscending(): boolean {
    const { ending_before: cursor } = this.#query as { ending_before?: string | null };
    return cursor !== undefined && cursor !== null;
  }

  async #fetch(): Promise<Page<Item>> {
    const request = { method: 'GET', path: this.#path, query: this.#query } as const;
    const page = await this.#transport.send(request, this.#options);
    if (!isPage<Item>(page))
      throw new BelfryError(`GET ${this.#path}: the response is not a page of a list: is baseUrl right?`, {
        code: 'invalid_response',
        status: 200,
      });
    return {
      ...page,
      next: () => this.#neighbour(page.links.next),
      prev: () => this.#neighbour(page.links.prev),
    };
  }

  /**
   * Uses only the cursor of a link. Behind a proxy its address may be wrong, and the token must only go to
   * `baseUrl`.
   */
  #neighbour(link: string | null): PageRequest<Item> | undefined {
    if (link === null) return undefined;
    const { searchParams } = new URL(link, 'http://localhost');
    const cursors = {
      starting_after: searchParams.get('starting_after'),
      ending_before: searchParams.get('ending_before'),
    };
    return new PageRequest(this.#transport, this.#path, { ...this.#query, ...cursors }, this.#options);
  }
}

function isPage<Item>(body: unknown): body is PageData<Item> {
  const { data, links } = (body ?? {}) as { data?: unknown; links?: unknown };
  return Array.isArray(data) && typeof links === 'object' && links !== null;
}

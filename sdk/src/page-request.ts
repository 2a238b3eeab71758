import type { RequestOptions } from './options.ts';
import type { Transport } from './transport.ts';

/** A page of a list, newest first, as the API has it. */
export interface PageData<Item> {
  data: Item[];
  links: { first: string; next: string | null; prev: string | null };
}

/** A page with the way to its neighbours. */
export interface Page<Item> extends PageData<Item> {
  /** Requests the page of older records; `undefined` on the last page. */
  next(): PageRequest<Item> | undefined;
  /** Requests the page of newer records; `undefined` on the first page. */
  prev(): PageRequest<Item> | undefined;
}

/**
 * A list that was asked for. Awaited, it is one page. Looped over with `for await`, it is every record from
 * there on, fetched a page at a time. Nothing is requested before either.
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

  // biome-ignore lint/suspicious/noThenProperty: this is what makes it a promise
  then<Result = Page<Item>, Failure = never>(
    onPage?: ((page: Page<Item>) => Result | PromiseLike<Result>) | null,
    // biome-ignore lint/suspicious/noExplicitAny: as every promise has it
    onError?: ((error: any) => Failure | PromiseLike<Failure>) | null,
  ): Promise<Result | Failure> {
    this.#page ??= this.#fetch();
    return this.#page.then(onPage, onError);
  }

  catch<Failure = never>(
    // biome-ignore lint/suspicious/noExplicitAny: as every promise has it
    onError?: ((error: any) => Failure | PromiseLike<Failure>) | null,
  ): Promise<Page<Item> | Failure> {
    return this.then(null, onError);
  }

  finally(onEnd?: (() => void) | null): Promise<Page<Item>> {
    return this.then().finally(onEnd);
  }

  /**
   * Every record from here on: towards older ones, or, where the list was asked for with `ending_before`,
   * towards newer ones.
   */
  async *[Symbol.asyncIterator](): AsyncGenerator<Item, void, undefined> {
    for await (const { data } of this.pages()) yield* this.#goesUp ? data.toReversed() : data;
  }

  /** The same, a page at a time. */
  async *pages(): AsyncGenerator<Page<Item>, void, undefined> {
    let page: Page<Item> | undefined = await this;
    while (page !== undefined) {
      yield page;
      page = await (this.#goesUp ? page.prev() : page.next());
    }
  }

  get #goesUp(): boolean {
    const { ending_before: cursor } = this.#query as { ending_before?: string | null };
    return cursor !== undefined && cursor !== null;
  }

  async #fetch(): Promise<Page<Item>> {
    const request = { method: 'GET', path: this.#path, query: this.#query } as const;
    const page = (await this.#transport.send(request, this.#options)) as PageData<Item>;
    return {
      ...page,
      next: () => this.#neighbour(page.links.next),
      prev: () => this.#neighbour(page.links.prev),
    };
  }

  /**
   * Of a link only the cursor is used. Its address is the one that the server takes itself to have, which a
   * proxy may know better, and a token should go nowhere but to the address that it was given for.
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

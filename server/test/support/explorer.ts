import fc from 'fast-check';
import { newId } from '../../src/lib/ids.ts';
import { brokenValuesOf, valuesOf } from './arbitrary.ts';
import { type Description, type Operation, type Parameter, pathOf } from './operations.ts';
import type { ApiResponse, Caller } from './service.ts';

/** A generated request of an operation. */
export interface GeneratedRequest {
  path: Record<string, string>;
  query: Record<string, unknown>;
  body: unknown;
}

/**
 * Generates requests from an API description. It learns ids from responses, so that requests find records.
 */
export class Explorer {
  readonly described: Description;
  readonly #known = new Map<string, string[]>();

  constructor(described: Description) {
    this.described = described;
  }

  /** Requests of an operation. With `broken`, most of them are invalid. */
  requestsOf(operation: Operation, { broken = false } = {}): fc.Arbitrary<GeneratedRequest> {
    const { document } = this.described;
    const make = broken ? brokenValuesOf : valuesOf;
    const inPath = operation.parameters.filter((one) => one.in === 'path');
    const inQuery = operation.parameters.filter((one) => one.in === 'query');
    return fc.record({
      path: fc.record(
        Object.fromEntries(inPath.map((one) => [one.name, this.#pathValues(operation, one, broken)])),
      ),
      query: fc.record(
        Object.fromEntries(inQuery.map((one) => [one.name, make(document, one.schema)])),
        // Few at a time, because most filters together find nothing.
        { requiredKeys: [] },
      ),
      body: operation.body === undefined ? fc.constant(undefined) : make(document, operation.body),
    }) as fc.Arbitrary<GeneratedRequest>;
  }

  /** The ids that are known for a parameter of an operation. */
  idsFor(operation: Operation, parameter: string): readonly string[] {
    return this.#known.get(idName(operation, parameter)) ?? [];
  }

  /** Learns the ids in a response: of its record or of its list. */
  learn(operation: Operation, { body }: ApiResponse): void {
    const records = recordsIn(body);
    for (const { name, key } of this.#keysBelow(READ_AT[operation.id] ?? operation.path)) {
      for (const record of records as (Record<string, unknown> | null | undefined)[]) {
        const id = record?.[name] ?? (name.endsWith('_key') ? record?.key : record?.id) ?? record?.key;
        if (typeof id !== 'string' && typeof id !== 'number') continue;
        this.#known.set(key, [...new Set([...(this.#known.get(key) ?? []).slice(-20), String(id)])]);
      }
    }
  }

  /** The parameters for ids of the records at this path: for `/users`, those of `/users/{user_id}`. */
  #keysBelow(path: string): { name: string; key: string }[] {
    return this.described.operations.flatMap((other) => {
      const name = /^\/\{(\w+)\}(\/|$)/.exec(other.path.slice(path.length))?.[1];
      return other.path.startsWith(path) && name !== undefined ? [{ name, key: idName(other, name) }] : [];
    });
  }

  #pathValues(operation: Operation, { name, schema }: Parameter, broken: boolean): fc.Arbitrary<string> {
    const unknown = broken
      ? fc.oneof(fc.string({ minLength: 1, maxLength: 50 }), fc.constantFrom('%', 'null', '0', '\0', 'é'))
      : (valuesOf(this.described.document, schema) as fc.Arbitrary<string>);
    const known = fc.nat().map((at) => {
      const ids = this.idsFor(operation, name);
      return ids[at % ids.length] ?? newId();
    });
    // An empty one is the path of another operation, and so are dots, which clients normalize.
    return fc.oneof({ arbitrary: known, weight: 3 }, unknown).filter((text) => !/^\.{0,2}$/.test(text));
  }
}

/** The request of an operation's example, for a new record. It is valid, unlike many generated ones. */
export function examplesOf({ parameters, example }: Operation): GeneratedRequest[] {
  if (example === undefined) return [];
  const inPath = parameters.filter((one) => one.in === 'path');
  return [{ path: Object.fromEntries(inPath.map(({ name }) => [name, newId()])), query: {}, body: example }];
}

/** The records of a list, also of v1 (`{"users": […]}`), or the one record (`{"user": {…}}`). */
function recordsIn(body: unknown): unknown[] {
  if (typeof body !== 'object' || body === null) return [body];
  const members: unknown[] = Object.values(body);
  const list = members.find((member) => Array.isArray(member));
  if ('data' in body || 'items' in body || ('current_page' in body && list !== undefined)) return list ?? [];
  return members.length === 1 && typeof members[0] === 'object' ? members : [body];
}

/** Sends a generated request. */
export async function send(
  call: Caller,
  operation: Operation,
  { path, query, body }: GeneratedRequest,
): Promise<ApiResponse> {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query))
    if (value !== null && value !== undefined)
      search.append(name, typeof value === 'string' ? value : JSON.stringify(value));
  const target = `${pathOf(operation, path)}${search.size > 0 ? `?${search}` : ''}`;
  return call(operation.method, target, body === undefined ? undefined : JSON.stringify(body));
}

/** The paths where the records of these operations are read, if it is not their own. */
const READ_AT: Record<string, string> = { importUsers: '/imports', createNotificationV1: '/broadcasts' };

/** `token_id` has another meaning in each collection, `user_id` the same everywhere. */
function idName(operation: Operation, name: string): string {
  if (name !== 'token_id') return name;
  return `${name} ${operation.path.replace(/^\/users\/\{user_id\}/, '').replace('/{token_id}', '')}`;
}

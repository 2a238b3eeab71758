/** A JSON Schema, with the keywords that our API description uses. */
export interface Schema {
  type?: string | string[];
  properties?: Record<string, Schema>;
  required?: string[];
  additionalProperties?: boolean | Schema;
  items?: Schema;
  anyOf?: Schema[];
  allOf?: Schema[];
  not?: Schema;
  enum?: unknown[];
  const?: unknown;
  pattern?: string;
  format?: string;
  minLength?: number;
  maxLength?: number;
  minItems?: number;
  maxItems?: number;
  uniqueItems?: boolean;
  minimum?: number;
  maximum?: number;
  readOnly?: boolean;
  examples?: unknown[];
  $ref?: string;
}

export interface Parameter {
  in: 'path' | 'query' | 'header';
  name: string;
  required?: boolean;
  schema: Schema;
}

/** One operation of the published description. */
export interface Operation {
  id: string;
  method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  /** Below the server of the description (`/v2`), with `{parameters}`. */
  path: string;
  /** Who may call it. A public operation needs no token. */
  caller: 'project' | 'user' | 'public';
  parameters: Parameter[];
  body: Schema | undefined;
  /** The body may be left out, or be `null`. */
  bodyIsOptional: boolean;
  /** The example of its body. */
  example: unknown;
  /** The schema of the response by status, `undefined` if it has no JSON body. */
  replies: Map<number, Schema | undefined>;
  /** The response is a stream of events, which does not end. */
  streams: boolean;
}

interface RawOperation {
  operationId: string;
  security?: Record<string, unknown>[];
  parameters?: Parameter[];
  requestBody?: { required?: boolean; content: Record<string, { schema: Schema; example?: unknown }> };
  responses: Record<string, { $ref?: string; content?: Record<string, { schema?: Schema }> }>;
}

/** The API description of a server. */
export interface Description {
  document: Record<string, unknown>;
  operations: Operation[];
}

/** Reads the operations of an API description. */
export function describedBy(document: Record<string, unknown>): Description {
  const paths = document.paths as Record<string, Record<string, RawOperation>>;
  const operations = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, raw]) => operationOf(document, path, method, raw)),
  );
  return { document, operations };
}

function operationOf(
  document: Record<string, unknown>,
  path: string,
  method: string,
  raw: RawOperation,
): Operation {
  const security = raw.security ?? [];
  const replies = Object.entries(raw.responses).map(([status, response]): [number, Schema | undefined] => {
    const resolved =
      response.$ref === undefined ? response : (resolveReference(document, response.$ref) as typeof response);
    return [Number(status), resolved.content?.['application/json']?.schema];
  });
  return {
    id: raw.operationId,
    method: method.toUpperCase() as Operation['method'],
    path,
    caller: security.some((one) => 'ProjectJWT' in one || 'APISecret' in one)
      ? 'project'
      : security.some((one) => 'UserJWT' in one)
        ? 'user'
        : 'public',
    parameters: (raw.parameters ?? []).map((one) => ({
      ...one,
      schema:
        one.schema.$ref === undefined ? one.schema : (resolveReference(document, one.schema.$ref) as Schema),
    })),
    body: raw.requestBody?.content['application/json']?.schema,
    bodyIsOptional: raw.requestBody?.required !== true,
    example: raw.requestBody?.content['application/json']?.example,
    replies: new Map(replies),
    streams: Object.values(raw.responses).some(({ content }) => content?.['text/event-stream'] !== undefined),
  };
}

/** The value that a `#/…` reference points to. */
export function resolveReference(document: Record<string, unknown>, reference: string): unknown {
  return reference
    .slice(2)
    .split('/')
    .reduce<unknown>((at, name) => (at as Record<string, unknown>)[name], document);
}

/** The path of an operation with these parameters. */
export function pathOf(operation: Operation, values: Record<string, string>): string {
  return operation.path.replace(/\{(\w+)\}/g, (_all, name: string) =>
    encodeURIComponent((values[name] ?? '').toWellFormed()),
  );
}

/** A JSON Schema as our description has it: the few keywords that it uses. */
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
  /** Below `/v2`, with `{parameters}`. */
  path: string;
  /** Whose token it takes; nobody's where it is public. */
  caller: 'project' | 'user' | 'anybody';
  parameters: Parameter[];
  body: Schema | undefined;
  /** The body that is shown. */
  example: unknown;
  /** By status: the schema of the answer, `undefined` where it has no JSON body. */
  replies: Map<number, Schema | undefined>;
  /** A stream of events: it answers, and does not end. */
  streams: boolean;
}

interface RawOperation {
  operationId: string;
  security?: Record<string, unknown>[];
  parameters?: Parameter[];
  requestBody?: { content: Record<string, { schema: Schema; example?: unknown }> };
  responses: Record<string, { $ref?: string; content?: Record<string, { schema?: Schema }> }>;
}

/** The description that a server publishes. */
export interface Description {
  document: Record<string, unknown>;
  operations: Operation[];
}

/** Every operation that a description names. */
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
    const meant =
      response.$ref === undefined ? response : (pointed(document, response.$ref) as typeof response);
    return [Number(status), meant.content?.['application/json']?.schema];
  });
  return {
    id: raw.operationId,
    method: method.toUpperCase() as Operation['method'],
    path,
    caller: security.some((one) => 'ProjectJWT' in one)
      ? 'project'
      : security.some((one) => 'UserJWT' in one)
        ? 'user'
        : 'anybody',
    parameters: raw.parameters ?? [],
    body: raw.requestBody?.content['application/json']?.schema,
    example: raw.requestBody?.content['application/json']?.example,
    replies: new Map(replies),
    streams: Object.values(raw.responses).some(({ content }) => content?.['text/event-stream'] !== undefined),
  };
}

/** What a `#/…` reference points at. */
export function pointed(document: Record<string, unknown>, reference: string): unknown {
  return reference
    .slice(2)
    .split('/')
    .reduce<unknown>((at, name) => (at as Record<string, unknown>)[name], document);
}

/** The path of an operation with its parameters filled in. */
export function pathOf(operation: Operation, values: Record<string, string>): string {
  return operation.path.replace(/\{(\w+)\}/g, (_all, name: string) =>
    encodeURIComponent((values[name] ?? '').toWellFormed()),
  );
}

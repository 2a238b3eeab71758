import type { ApiDocument, RawOperation, Schema } from './document.ts';
import { camelCase, singular, wordsOf } from './words.ts';

/** An operation as a method: `client.<resource>.<method>(…)`. */
export interface Operation {
  id: string;
  /** The client that has it. */
  client: 'project' | 'user';
  /** `['integrations', 'smtp']`; the first is the tag. */
  resource: string[];
  tag: string;
  method: string;
  httpMethod: string;
  path: string;
  pathParameters: string[];
  summary: string;
  description: string | undefined;
  deprecated: boolean;
  query: Schema | undefined;
  /** The name of its schema. */
  body: { type: string; required: boolean } | undefined;
  /** The name of its schema; for a page, of the schema of its records. */
  reply: { kind: 'nothing' | 'stream' } | { kind: 'json' | 'page'; type: string };
}

// The first message of a stream with it is no event. The store of the inbox reads it by itself.
const NOT_OFFERED = ['snapshot'];

/** Every operation with a Project JWT or a User JWT, named after its operationId, tag and path. */
export function operationsOf(document: ApiDocument): Operation[] {
  const found = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([httpMethod, raw]) => ({ path, httpMethod, raw })),
  );
  const operations = [
    ...operationsWith('ProjectJWT', 'project', document, found),
    ...operationsWith('UserJWT', 'user', document, found),
  ];
  refuseTwins(operations);
  return operations;
}

interface Found {
  path: string;
  httpMethod: string;
  raw: RawOperation;
}

function operationsWith(
  scheme: string,
  client: Operation['client'],
  document: ApiDocument,
  found: readonly Found[],
): Operation[] {
  const own = found.filter(
    ({ raw }) => (raw.security ?? []).some((choice) => scheme in choice) && !isFile(raw),
  );
  const names = own.map(({ raw, path }) => partsOf(raw, path, client));
  const group = ({ tag, qualifiers }: NameParts) => `${tag} ${qualifiers.join(' ')}`;
  const groups = Map.groupBy(names, group);
  return own.map((operation, index) => {
    const parts = names[index] as NameParts;
    const isCollection = (groups.get(group(parts)) ?? []).length > 1;
    return { client, ...nameOf(parts, isCollection), ...operationOf(document, operation) };
  });
}

function operationOf(
  document: ApiDocument,
  { path, httpMethod, raw }: Found,
): Omit<Operation, 'client' | 'resource' | 'method' | 'tag'> {
  const inQuery = (raw.parameters ?? []).filter(
    (parameter) => parameter.in === 'query' && !NOT_OFFERED.includes(parameter.name),
  );
  const content = raw.requestBody?.content?.['application/json'];
  return {
    id: raw.operationId,
    httpMethod: httpMethod.toUpperCase(),
    path,
    pathParameters: [...path.matchAll(/{([^}]+)}/g)].map(([, name = '']) => name),
    summary: raw.summary ?? raw.operationId,
    description: raw.description,
    deprecated: raw.deprecated === true,
    query: inQuery.length === 0 ? undefined : querySchema(inQuery),
    body: content?.schema && {
      type: nameOfSchema(content.schema),
      required: raw.requestBody?.required !== false,
    },
    reply: replyOf(document, raw),
  };
}

interface NameParts {
  tag: string;
  verb: string;
  qualifiers: string[];
  /** The qualifiers as a resource below the tag's, if they are part of the path. */
  nested: string | undefined;
}

/**
 * Splits an operationId into verb, qualifiers and noun: `save`, `Smtp`, `Integration`. The tag repeats the
 * noun. An owner (`OfUser`) is an argument, and `User` says nothing new in a user's client.
 */
function partsOf({ operationId, tags }: RawOperation, path: string, client: Operation['client']): NameParts {
  const tag = tags?.[0] ?? 'Other';
  const [verb = '', ...all] = wordsOf(operationId);
  const owner = all.lastIndexOf('of');
  const isOwned = owner > 0 && path.includes(`/{${all.slice(owner + 1).join('_')}_id}/`);
  const rest = isOwned ? all.slice(0, owner) : all;
  const said = [...wordsOf(tag), client].map(singular);
  const qualifiers = rest.filter((word) => !said.includes(singular(word)));
  return { tag, verb, qualifiers, nested: nestedResource(qualifiers, path) };
}

/**
 * The tag is the resource and the verb the method. Qualifiers that several operations and their paths share
 * are a resource below it (`integrations.smtp.save`); other qualifiers belong to the method
 * (`notifications.readAll`).
 */
function nameOf({ tag, verb, qualifiers, nested }: NameParts, isCollection: boolean) {
  const within = isCollection ? nested : undefined;
  return {
    tag,
    resource: [camelCase(wordsOf(tag)), ...(within === undefined ? [] : [within])],
    method: camelCase(within === undefined ? [verb, ...qualifiers] : [verb]),
  };
}

/** The qualifiers as a resource, if they are a segment of the path or its end: `web_push`, `…_slackbot`. */
function nestedResource(qualifiers: readonly string[], path: string): string | undefined {
  const isSegment = path.split('/').some((part) => {
    const words = wordsOf(part).slice(-qualifiers.length);
    return !part.startsWith('{') && words.join(' ') === qualifiers.join(' ');
  });
  return isSegment && qualifiers.length > 0 ? camelCase(qualifiers) : undefined;
}

function querySchema(parameters: NonNullable<RawOperation['parameters']>): Schema {
  const members = parameters.map(({ name, description, schema }) => {
    return [name, description === undefined ? schema : { ...schema, description }] as const;
  });
  return {
    type: 'object',
    properties: Object.fromEntries(members),
    required: parameters.filter(({ required }) => required === true).map(({ name }) => name),
    additionalProperties: false,
  };
}

/** Whether an operation responds with a file of rows, which no method can return as a value. */
function isFile({ responses }: RawOperation): boolean {
  return Object.values(responses).some(({ content }) => content?.['application/x-ndjson'] !== undefined);
}

function replyOf(document: ApiDocument, { operationId, responses }: RawOperation): Operation['reply'] {
  const success = Object.entries(responses).find(([status]) => status.startsWith('2'))?.[1];
  if (success === undefined) throw new Error(`${operationId} has no response for success`);
  if (success.content?.['text/event-stream'] !== undefined) return { kind: 'stream' };
  const schema = success.content?.['application/json']?.schema;
  if (schema === undefined) return { kind: 'nothing' };
  const name = nameOfSchema(schema);
  const { data, links } = document.components.schemas[name]?.properties ?? {};
  return data?.items !== undefined && links !== undefined
    ? { kind: 'page', type: nameOfSchema(data.items) }
    : { kind: 'json', type: name };
}

function nameOfSchema({ $ref }: Schema): string {
  if ($ref === undefined) throw new Error('a body or response has no named schema');
  return $ref.replace('#/components/schemas/', '');
}

function refuseTwins(operations: readonly Operation[]): void {
  const taken = new Map<string, string>();
  for (const { client, resource, method, id } of operations) {
    const name = `${client}: ${[...resource, method].join('.')}`;
    const other = taken.get(name);
    if (other !== undefined)
      throw new Error(`${id} and ${other} would both be "${name}": give one another operationId`);
    taken.set(name, id);
  }
  for (const name of taken.keys()) {
    const inside = [...taken.keys()].find((other) => other.startsWith(`${name}.`));
    if (inside !== undefined)
      throw new Error(`"${name}" would be a method and hold "${inside}": give one another operationId`);
  }
}

import type { ApiDocument, RawOperation, Schema } from './document.ts';
import { camelCase, singular, wordsOf } from './words.ts';

/** An operation as the SDK has it: `client.<resource>.<method>(…)`. */
export interface Operation {
  id: string;
  /** Of which client it is a part. */
  client: 'project' | 'user';
  /** `['integrations', 'smtp']`, and the tag that the first of them comes from. */
  resource: string[];
  tag: string;
  method: string;
  /** What one record is called, in words: `['smtp', 'integration']`. */
  entity: string[];
  httpMethod: string;
  path: string;
  pathParameters: string[];
  summary: string;
  description: string | undefined;
  deprecated: boolean;
  query: Schema | undefined;
  body: { schema: Schema; required: boolean } | undefined;
  reply:
    | { kind: 'nothing' }
    | { kind: 'json'; schema: Schema }
    | { kind: 'page'; item: Schema }
    | { kind: 'stream' };
}

/** Every operation that a Project JWT or a User JWT may call, named by its operationId, tag and path. */
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
  const own = found.filter(({ raw }) => (raw.security ?? []).some((choice) => scheme in choice));
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
): Omit<Operation, 'client' | 'resource' | 'method' | 'entity' | 'tag'> {
  const inQuery = (raw.parameters ?? []).filter((parameter) => parameter.in === 'query');
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
      schema: withoutReadOnly(content.schema),
      required: raw.requestBody?.required !== false,
    },
    reply: replyOf(document, raw),
  };
}

interface NameParts {
  tag: string;
  verb: string;
  qualifiers: string[];
  /** The qualifiers as a resource within the tag's, where the path has it. */
  nested: string | undefined;
  entity: string[];
}

/**
 * An operationId is a verb, what qualifies the noun, and the noun, which the tag repeats: `save` `Smtp`
 * `Integration` of "Integrations". An owner after it (`OfUser`) is named by an argument, and a user's client
 * speaks for its user anyway.
 */
function partsOf({ operationId, tags }: RawOperation, path: string, client: Operation['client']): NameParts {
  const tag = tags?.[0] ?? 'Other';
  const [verb = '', ...all] = wordsOf(operationId);
  const owner = all.lastIndexOf('of');
  const isOwned = owner > 0 && path.includes(`/{${all.slice(owner + 1).join('_')}_id}/`);
  const rest = isOwned ? all.slice(0, owner) : all;
  const said = [...wordsOf(tag), client].map(singular);
  const qualifiers = rest.filter((word) => !said.includes(singular(word)));
  const noun = rest.length === 0 ? wordsOf(tag) : rest;
  return {
    tag,
    verb,
    qualifiers,
    nested: nestedResource(qualifiers, path),
    // These speak of many.
    entity: verb === 'list' || verb === 'stream' ? noun.with(-1, singular(noun.at(-1) ?? '')) : noun,
  };
}

/**
 * The tag gives the resource and the verb the method. Qualifiers that several operations share and that the
 * path has as well name a resource within it (`integrations.smtp.save`), others stay with the verb
 * (`notifications.readAll`).
 */
function nameOf({ tag, verb, qualifiers, nested, entity }: NameParts, isCollection: boolean) {
  const within = isCollection ? nested : undefined;
  return {
    tag,
    entity,
    resource: [camelCase(wordsOf(tag)), ...(within === undefined ? [] : [within])],
    method: camelCase(within === undefined ? [verb, ...qualifiers] : [verb]),
  };
}

/**
 * The qualifiers as a resource of their own, where they are a segment of the path or its end: `web_push`,
 * `…_slackbot`.
 */
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

function replyOf(document: ApiDocument, { operationId, responses }: RawOperation): Operation['reply'] {
  const success = Object.entries(responses).find(([status]) => status.startsWith('2'))?.[1];
  if (success === undefined) throw new Error(`${operationId} has no answer of success`);
  if (success.content?.['text/event-stream'] !== undefined) return { kind: 'stream' };
  const schema = success.content?.['application/json']?.schema;
  if (schema === undefined) return { kind: 'nothing' };
  const { properties = {} } = resolve(document, schema);
  const item = properties.data?.items;
  return item !== undefined && properties.links !== undefined
    ? { kind: 'page', item }
    : { kind: 'json', schema };
}

function resolve(document: ApiDocument, schema: Schema): Schema {
  const name = schema.$ref?.replace('#/components/schemas/', '');
  return name === undefined ? schema : (document.components?.schemas?.[name] ?? {});
}

/** What a request may carry back but need not. */
function withoutReadOnly(schema: Schema): Schema {
  if (schema.properties === undefined) return schema;
  const kept = Object.entries(schema.properties).filter(([, member]) => member.readOnly !== true);
  return { ...schema, properties: Object.fromEntries(kept) };
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

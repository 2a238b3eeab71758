import type { ApiDocument } from './document.ts';
import type { NamedTypes } from './name-types.ts';
import type { Operation } from './operations.ts';
import { type Place, printComment, printForm } from './print-type.ts';
import { camelCase, pascalCase, wordsOf } from './words.ts';

const HEAD = `// Made from openapi.json by \`npm run generate\`: change the API, not this file.
// biome-ignore-all format: it is written by a program and read in editors, a member at a time
// biome-ignore-all assist/source/organizeImports: likewise
`;

/** The module with every type of the API. */
export function printTypes(types: NamedTypes): string {
  const nameOf: Place['nameOf'] = (schema, words) => types.nameWithin(schema, words);
  const declarations = types.declared.map(({ name, words, schema }) => {
    const comment = printComment([schema.description], '');
    return `${comment}export type ${name} = ${printForm(schema, { indent: '', words, nameOf })};\n`;
  });
  return `${HEAD}\n${declarations.join('\n')}`;
}

/** The module of one of the two clients. */
export function printClient(
  client: Operation['client'],
  document: ApiDocument,
  types: NamedTypes,
  operations: readonly Operation[],
): string {
  const own = operations.filter((operation) => operation.client === client);
  const about = {
    project: 'Speaks for a whole project with its Project JWT: for your servers, never for a browser.',
    user: 'Speaks for one user with a User JWT: what an inbox needs, on a server or in a browser.',
  }[client];
  const tags = (document.tags ?? []).map(({ name }) => name);
  const byTag = Map.groupBy(own, ({ tag }) => tag);
  const sorted = [...byTag].sort(([a], [b]) => place(tags, a) - place(tags, b));
  const resources = sorted.map(([tag, members]) => {
    const comment = printComment([document.tags?.find(({ name }) => name === tag)?.description], '  ');
    const body = printResource(treeOf(members), types, '  ');
    return `${comment}  readonly ${camelCase(wordsOf(tag))} = ${body};\n`;
  });
  const body = `${printComment([about], '')}export class ${pascalCase([client])}Client extends Client {
${resources.join('\n')}}
`;
  return `${HEAD}${imports(body, types)}\n${body}`;
}

/** Methods, and resources with methods of their own. */
interface Tree {
  methods: Operation[];
  resources: Map<string, Tree>;
}

function treeOf(operations: readonly Operation[]): Tree {
  const root: Tree = { methods: [], resources: new Map() };
  for (const operation of operations) {
    let tree = root;
    for (const name of operation.resource.slice(1)) {
      const inner = tree.resources.get(name) ?? { methods: [], resources: new Map() };
      tree.resources.set(name, inner);
      tree = inner;
    }
    tree.methods.push(operation);
  }
  return root;
}

function printResource({ methods, resources }: Tree, types: NamedTypes, indent: string): string {
  const within = `${indent}  `;
  const members = [
    ...methods.map((operation) => printMethod(operation, types, within)),
    ...[...resources].map(([name, tree]) => `${within}${name}: ${printResource(tree, types, within)},\n`),
  ];
  return `{\n${members.join('')}${indent}}`;
}

function printMethod(operation: Operation, types: NamedTypes, indent: string): string {
  const { httpMethod, path, summary, description, deprecated, method } = operation;
  const comment = [
    `${summary}.`,
    ...(description === undefined ? [] : [description]),
    '',
    `\`${httpMethod} ${path}\``,
    ...(deprecated ? ['@deprecated'] : []),
  ];
  const { reply, send } = callOf(operation, types);
  return `${printComment(comment, indent)}${indent}${method}: (${parametersOf(operation, types).join(', ')}): ${reply} =>
${indent}  ${send},
`;
}

/** The parts of the path, the body, the query, the options; what may be left out comes last by itself. */
function parametersOf({ pathParameters, body, query, reply }: Operation, types: NamedTypes): string[] {
  const parameters = pathParameters.map((name) => `${camelCase(wordsOf(name))}: string`);
  if (body !== undefined) parameters.push(`body${body.required ? '' : '?'}: ${types.print(body.schema)}`);
  if (query !== undefined) {
    const optional = (query.required ?? []).length === 0;
    parameters.push(`query${optional ? '?' : ''}: ${types.print(query)}`);
  }
  parameters.push(`options?: ${reply.kind === 'stream' ? 'StreamOptions' : 'RequestOptions'}`);
  return parameters;
}

/** What the method answers, and what it does for it. */
function callOf(
  { id, entity, httpMethod, path, body, query, reply }: Operation,
  types: NamedTypes,
): { reply: string; send: string } {
  const address = path.includes('{')
    ? `\`${path.replace(/{([^}]+)}/g, (_all, name: string) => `\${segment(${camelCase(wordsOf(name))})}`)}\``
    : `'${path}'`;
  if (reply.kind === 'page') {
    return {
      reply: `PageRequest<${types.print(reply.item)}>`,
      send: `this.list(${address}, ${query === undefined ? '{}' : 'query'}, options)`,
    };
  }
  if (reply.kind === 'stream') {
    const record = types.declared.find(({ name }) => name === pascalCase(entity));
    return {
      reply: `EventStream<EventOf<'${id}', ${record?.name ?? 'unknown'}>>`,
      send: `this.stream(${address}, ${query === undefined ? '{}' : 'query'}, options)`,
    };
  }
  const parts = [`method: '${httpMethod}'`, `path: ${address}`];
  if (body !== undefined) parts.push('body');
  if (query !== undefined) parts.push('query');
  return {
    reply: `Promise<${reply.kind === 'json' ? types.print(reply.schema) : 'void'}>`,
    send: `this.request({ ${parts.join(', ')} }, options)`,
  };
}

function imports(body: string, { declared }: NamedTypes): string {
  const code = body.replaceAll(/\/\*\*.*?\*\//gs, '');
  const lines: [keyword: string, names: string[], from: string][] = [
    ['import', ['Client', 'segment'], '../client.ts'],
    ['import type', ['EventOf'], '../event-of.ts'],
    ['import type', ['EventStream'], '../event-stream.ts'],
    ['import type', ['RequestOptions', 'StreamOptions'], '../options.ts'],
    ['import type', ['PageRequest'], '../page-request.ts'],
    ['import type', declared.map(({ name }) => name).toSorted(), './types.ts'],
  ];
  return lines
    .map(([keyword, names, from]) => {
      const used = names.filter((name) => new RegExp(`\\b${name}\\b(?!')`).test(code));
      return used.length === 0 ? '' : `${keyword} { ${used.join(', ')} } from '${from}';\n`;
    })
    .join('');
}

function place(tags: readonly string[], tag: string): number {
  const at = tags.indexOf(tag);
  return at < 0 ? tags.length : at;
}

import type { ApiDocument } from './document.ts';
import type { Operation } from './operations.ts';
import type { Queries } from './queries.ts';
import { camelCase, pascalCase, wordsOf } from './words.ts';

const HEAD = '// Made from openapi.json by `npm run generate`: change the API, not this file.\n';

/** The module of one of the two clients. */
export function printClient(
  client: Operation['client'],
  {
    document,
    operations,
    queries,
  }: { document: ApiDocument; operations: readonly Operation[]; queries: Queries },
): string {
  const own = operations.filter((operation) => operation.client === client);
  const about = {
    project: 'Acts for a whole project with a Project JWT. For your servers, never for a browser.',
    user: 'Acts for one user with a User JWT. For an inbox, on a server or in a browser.',
  }[client];
  const tags = (document.tags ?? []).map(({ name }) => name);
  const byTag = Map.groupBy(own, ({ tag }) => tag);
  const sorted = [...byTag].sort(([a], [b]) => place(tags, a) - place(tags, b));
  const resources = sorted.map(([tag, members]) => {
    const comment = printComment([document.tags?.find(({ name }) => name === tag)?.description], '  ');
    const body = printResource(treeOf(members), queries, '  ');
    return `${comment}  readonly ${camelCase(wordsOf(tag))} = ${body};\n`;
  });
  const body = `${printComment([about], '')}export class ${pascalCase([client])}Client extends Client {
${resources.join('\n')}}
`;
  const types = Object.keys({ ...document.components.schemas, ...queries.schemas });
  return `${HEAD}${imports(body, types)}\n${body}`;
}

/** Methods, and the resources below. */
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

function printResource({ methods, resources }: Tree, queries: Queries, indent: string): string {
  const within = `${indent}  `;
  const members = [
    ...methods.map((operation) => printMethod(operation, queries, within)),
    ...[...resources].map(([name, tree]) => `${within}${name}: ${printResource(tree, queries, within)},\n`),
  ];
  return `{\n${members.join('')}${indent}}`;
}

function printMethod(operation: Operation, queries: Queries, indent: string): string {
  const { httpMethod, path, summary, description, deprecated, method } = operation;
  const comment = [
    `${summary}.`,
    ...(description === undefined ? [] : [description]),
    '',
    `\`${httpMethod} ${path}\``,
    ...(deprecated ? ['@deprecated'] : []),
  ];
  const { reply, send } = callOf(operation);
  const parameters = parametersOf(operation, queries).join(', ');
  const signature = `${indent}${method}: (${parameters}): ${reply} =>`;
  return `${printComment(comment, indent)}${signature}\n${indent}  ${send},\n`;
}

/** The ids of the path, the body, the query and the options. */
function parametersOf(operation: Operation, queries: Queries): string[] {
  const { pathParameters, body, query, reply } = operation;
  const parameters = pathParameters.map((name) => `${camelCase(wordsOf(name))}: string`);
  if (body !== undefined) parameters.push(`body${body.required ? '' : '?'}: ${body.type}`);
  if (query !== undefined) {
    const optional = (query.required ?? []).length === 0;
    parameters.push(`query${optional ? '?' : ''}: Query<${queries.nameOf(operation)}>`);
  }
  parameters.push(`options?: ${reply.kind === 'stream' ? 'StreamOptions' : 'RequestOptions'}`);
  return parameters;
}

/** What the method returns, and how it sends the request. */
function callOf({ id, httpMethod, path, body, query, reply }: Operation): { reply: string; send: string } {
  const address = path.includes('{')
    ? `\`${path.replace(/{([^}]+)}/g, (_all, name: string) => `\${segment(${camelCase(wordsOf(name))})}`)}\``
    : `'${path}'`;
  const list = `${address}, ${query === undefined ? '{}' : 'query'}, options`;
  if (reply.kind === 'page') return { reply: `PageRequest<${reply.type}>`, send: `this.list(${list})` };
  if (reply.kind === 'stream')
    return { reply: `EventStream<EventOf<'${id}'>>`, send: `this.stream(${list})` };
  const parts = [`method: '${httpMethod}'`, `path: ${address}`];
  if (body !== undefined) parts.push('body');
  if (query !== undefined) parts.push('query');
  return {
    reply: `Promise<${reply.kind === 'json' ? reply.type : 'void'}>`,
    send: `this.request({ ${parts.join(', ')} }, options)`,
  };
}

/** A comment of one line or several, with the line break after it. */
function printComment(lines: readonly (string | undefined)[], indent: string): string {
  const text = lines
    .filter((line) => line !== undefined)
    .flatMap((line) => line.replaceAll('*/', '*\\/').split('\n'));
  if (text.length === 0) return '';
  if (text.length === 1) return `${indent}/** ${text[0]} */\n`;
  return `${indent}/**\n${text.map((line) => `${indent} * ${line}`.trimEnd()).join('\n')}\n${indent} */\n`;
}

function imports(body: string, types: readonly string[]): string {
  const code = body.replaceAll(/\/\*\*.*?\*\//gs, '');
  const lines: [keyword: string, names: string[], from: string][] = [
    ['import', ['Client', 'segment'], '../client.ts'],
    ['import type', ['EventOf'], '../event-of.ts'],
    ['import type', ['EventStream'], '../event-stream.ts'],
    ['import type', ['Query', 'RequestOptions', 'StreamOptions'], '../options.ts'],
    ['import type', ['PageRequest'], '../page-request.ts'],
    ['import type', types.toSorted(), './types.ts'],
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

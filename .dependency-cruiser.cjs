// The import rule of ARCHITECTURE.md, checked by `npm run lint`. Type-only imports count, too.
//   lib ◂ contract/{common,app-id,installation} ◂ providers ◂ {contract, config}
//   lib ◂ db ◂ queue
//   {contract, db, queue, providers} ◂ domain ◂ http ◂ app ◂ cli ◂ main
// open.ts and credentials.ts may be imported by app and above, like http.

const LEAVES = ['config', 'errors', 'metrics'];
const BELOW_DOMAIN = ['lib', 'contract', 'db', 'queue', 'providers', ...LEAVES];
const BELOW_APP = [...BELOW_DOMAIN, ...['domain', 'http', 'open', 'open-cells', 'credentials', 'telemetry']];

/** Each part of server/src and what it may import besides itself. Main, the last, may import everything. */
const MAY_IMPORT = {
  lib: [],
  contract: ['lib', 'providers'],
  providers: ['lib', 'contract'],
  db: ['lib'],
  queue: ['lib', 'db'],
  config: ['lib', 'providers'],
  errors: ['lib'],
  metrics: ['lib'],
  telemetry: ['lib', 'config', 'metrics'],
  domain: BELOW_DOMAIN,
  http: [...BELOW_DOMAIN, 'domain'],
  open: [...BELOW_DOMAIN, 'domain'],
  'open-cells': [...BELOW_DOMAIN, 'domain', 'open'],
  credentials: [...BELOW_DOMAIN, 'domain', 'open'],
  app: BELOW_APP,
  cli: [...BELOW_APP, 'app'],
};

/** A part is a folder or a file of that name. */
const part = (names) => `^server/src/(${names.join('|')})(/|[.]ts$)`;
const TESTS = '[.]test[.]ts$';
/** The files of http/graphql that a start loads. */
const GRAPHQL_ROUTES = '(index|graphiql)[.]ts$';

const parts = Object.entries(MAY_IMPORT).map(([name, others]) => ({
  name: `import-rule-${name}`,
  comment: `${name} may import only ${[name, ...others].join(', ')}`,
  severity: 'error',
  from: { path: part([name]), pathNot: TESTS },
  to: {
    path: '^(server|bench|docs|examples|sdk|dashboard|inbox)/',
    pathNot: ['/node_modules/', part([name, ...others])],
  },
}));

/** The layers of domain, the lowest first: each imports only itself and those below it. */
const LAYERS = ['ground', 'setup', 'people', 'line', 'workflows', 'after'];

const layers = LAYERS.slice(0, -1).map((layer, level) => ({
  name: `layer-${layer}`,
  comment: `domain/${layer} may import only ${LAYERS.slice(0, level + 1).join(', ')}`,
  severity: 'error',
  from: { path: `^server/src/domain/${layer}/`, pathNot: TESTS },
  to: {
    path: '^server/src/domain/',
    pathNot: `^server/src/domain/(${LAYERS.slice(0, level + 1).join('|')})/`,
  },
}));

const translators = ['v2', 'v1', 'graphql'].map((name) => ({
  name: `${name}-is-a-translator-of-its-own`,
  comment:
    'v2, v1 and graphql translate between their callers and domain; what two of them need belongs there',
  severity: 'error',
  from: { path: `^server/src/http/${name}/`, pathNot: TESTS },
  to: { path: '^server/src/http/(v2|v1|graphql)/', pathNot: `^server/src/http/${name}/` },
}));

module.exports = {
  forbidden: [
    ...parts,
    ...layers,
    ...translators,
    {
      name: 'known-layers-only',
      comment: 'a new folder of domain needs a place in LAYERS above',
      severity: 'error',
      from: { path: '^server/src/domain/[^/]+/', pathNot: `^server/src/domain/(${LAYERS.join('|')})/` },
      to: {},
    },
    {
      name: 'known-parts-only',
      comment: 'a new folder or file in server/src needs a place in MAY_IMPORT above',
      severity: 'error',
      from: {
        path: '^server/src/',
        pathNot: [part([...Object.keys(MAY_IMPORT), 'main'])],
      },
      to: {},
    },
    {
      name: 'providers-stand-below-the-contract',
      comment: 'the contract is made of what providers bring along; they use its building blocks alone',
      severity: 'error',
      from: { path: '^server/src/providers/' },
      to: {
        path: '^server/src/contract/',
        pathNot: '^server/src/contract/(common|app-id|installation)[.]ts$',
      },
    },
    {
      name: 'only-http-imports-the-web-framework',
      severity: 'error',
      from: { path: '^server/src/', pathNot: ['^server/src/http/', TESTS] },
      to: { path: '(^|/)node_modules/(fastify|@fastify|graphql|graphql-[a-z]+)/' },
    },
    {
      name: 'loaded-when-needed',
      comment: 'Few nodes use GraphQL or NATS: import it dynamically, so that no start waits for it.',
      severity: 'error',
      from: {
        path: '^server/src/',
        pathNot: [TESTS, '^server/src/cli/generate[.]ts$', `^server/src/http/graphql/(?!${GRAPHQL_ROUTES})`],
      },
      to: {
        path: [
          '(^|/)node_modules/(graphql|graphql-[a-z]+|@nats-io)/',
          `^server/src/http/graphql/(?!${GRAPHQL_ROUTES})`,
        ],
        dynamic: false,
        dependencyTypesNot: ['type-only'],
      },
    },
    {
      name: 'no-database-driver-here',
      comment: 'providers, http, contract and lib do not use the database driver',
      severity: 'error',
      from: { path: '^server/src/(providers|http|contract|lib)/', pathNot: TESTS },
      to: { path: '(^|/)node_modules/(@types/)?pg(-|/)' },
    },
    {
      name: 'a-provider-is-used-by-its-object',
      comment: 'Other parts use providers/index.ts. The exceptions are the flows of installations.',
      severity: 'error',
      from: {
        path: '^server/src/',
        pathNot: [TESTS, '^server/src/(providers|domain/people/installations)/'],
      },
      to: { path: '^server/src/providers/(?!shared/)[^/]+/' },
    },
    {
      name: 'the-pages-know-the-sdk-only',
      severity: 'error',
      from: { path: '^(dashboard|inbox)/', pathNot: TESTS },
      to: { path: '^(server|bench|docs|examples|dashboard|inbox)/', pathNot: '^$1/' },
    },
    {
      name: 'the-sdk-stands-alone',
      severity: 'error',
      from: { path: '^sdk/' },
      to: { path: '^(server|bench|docs|examples|dashboard|inbox)/' },
    },
    {
      name: 'no-tests-in-the-product',
      severity: 'error',
      from: { path: '^server/src/', pathNot: TESTS },
      to: { path: ['^server/test/', TESTS] },
    },
    {
      name: 'no-development-tools-in-the-product',
      comment: 'npm start installs without the development dependencies',
      severity: 'error',
      from: { path: '^server/src/', pathNot: TESTS },
      to: { dependencyTypes: ['npm-dev'], dependencyTypesNot: ['type-only'] },
    },
    { name: 'no-cycles', severity: 'error', from: {}, to: { circular: true } },
    { name: 'no-missing-files', severity: 'error', from: {}, to: { couldNotResolve: true } },
  ],
  options: {
    doNotFollow: { path: 'node_modules' },
    tsPreCompilationDeps: true,
    tsConfig: { fileName: 'tsconfig.json' },
    combinedDependencies: true,
    enhancedResolveOptions: {
      exportsFields: ['exports'],
      conditionNames: ['import', 'node', 'default', 'types'],
      extensions: ['.ts', '.tsx', '.mjs', '.js', '.json', '.d.ts'],
    },
  },
};

// The folders of server/src/domain import one another in one direction, type-only imports included. A run of its own,
// because dependency-cruiser follows folders over every module that it has read, tests included.
module.exports = {
  forbidden: [
    { name: 'no-folder-cycles', scope: 'folder', severity: 'error', from: {}, to: { circular: true } },
  ],
  options: {
    includeOnly: '^server/src/domain/[^/]+/',
    exclude: '[.]test[.]ts$',
    tsPreCompilationDeps: true,
    tsConfig: { fileName: 'tsconfig.json' },
    enhancedResolveOptions: { extensions: ['.ts'] },
  },
};

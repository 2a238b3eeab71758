// The folders of server/src/domain have no import cycles, type-only imports included. It is a separate run,
// because dependency-cruiser's folder rules apply to every module it has read, tests included.
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

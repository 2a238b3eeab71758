// npm run build -w @belfry/sdk [-- <folder>]: builds the package to publish, in dist/ or the given folder.
import { buildPackage } from '../bin/build-package.mjs';

console.log(buildPackage('sdk', process.argv[2]));

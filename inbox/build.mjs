// npm run build -w @belfry/inbox [-- <folder>]: builds the package to publish, in dist/ or the given folder.
import { buildPackage } from '../bin/build-package.mjs';

console.log(buildPackage('inbox', process.argv[2]));

// npm run build [-- <folder>]: builds the three packages to publish, and packs each into the folder (default:
// dist), as npm would publish it. Beside them is a list of what `belfry` installs, in CycloneDX.
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { buildPackage } from './build-package.mjs';
import { ensureInstalled } from './install.mjs';
import { isNewEnough, launch, root, runScript } from './runtime.mjs';

const SBOM = ['sbom', '--package-lock-only', '--omit=dev', '--sbom-format=cyclonedx'];

const folder = resolve(process.argv[2] ?? join(root, 'dist'));

await launch(async () => {
  if (!isNewEnough()) return runScript(join(root, 'bin', 'build.mjs'), process.argv.slice(2));
  await ensureInstalled({ dev: true });
  const { buildProgram } = await import('./build-program.mjs');
  mkdirSync(folder, { recursive: true });
  const temporary = mkdtempSync(join(folder, 'build-'));
  try {
    const packages = [
      await buildProgram(join(temporary, 'belfry')),
      buildPackage('sdk', join(temporary, 'sdk')),
      buildPackage('inbox', join(temporary, 'inbox')),
    ];
    const [belfry, ...others] = packages.map(pack);
    writeFileSync(join(folder, belfry.filename.replace(/tgz$/, 'cdx.json')), npm(SBOM, packages[0]));
    for (const { filename, size, unpackedSize, entryCount } of [belfry, ...others])
      console.log(
        `${filename}: ${megabytes(size)} packed, ${megabytes(unpackedSize)} in ${entryCount} files`,
      );
  } finally {
    rmSync(temporary, { recursive: true, force: true });
  }
});

/** Writes the archive of a built package to the folder. Returns what npm reports about it. */
function pack(built) {
  const args = ['pack', '--json', '--ignore-scripts', '--pack-destination', folder];
  const [report] = JSON.parse(npm(args, built));
  return report;
}

/** Runs npm in a folder, and returns what it prints. */
function npm(args, cwd) {
  const windows = process.platform === 'win32';
  return execFileSync('npm', args, { cwd, encoding: 'utf8', maxBuffer: 2 ** 26, shell: windows });
}

function megabytes(bytes) {
  return `${(bytes / 1e6).toFixed(1)} MB`;
}

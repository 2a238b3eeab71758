import { resolve } from 'node:path';
import { DocsSite } from '../../http/docs/site.ts';
import { ROOT } from '../../http/docs/sources.ts';
import { createLogger } from '../../lib/log.ts';
import { buildSite } from './build-site.ts';

/** `belfry docs build`: writes the guides and the API reference as a folder of static files. */
export async function buildDocs(
  folder: string,
  { base, served = false }: { base: string; served?: boolean },
): Promise<void> {
  const output = resolve(folder);
  process.chdir(ROOT); // Eleventy reads paths relative to the working directory
  await buildSite({ output, base, served });
}

/** `belfry docs prepare`: builds what a server serves at `/docs`, so that none has to write it. */
export async function prepareDocs(): Promise<void> {
  await new DocsSite({ log: createLogger({ level: 'error' }) }).files();
}

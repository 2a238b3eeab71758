import { resolve } from 'node:path';
import { ROOT } from '../../http/docs/sources.ts';
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

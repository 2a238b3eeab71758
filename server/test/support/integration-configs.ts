import { type IntegrationName, integrations } from '../../src/providers/index.ts';
import type { Rejections } from '../../src/providers/shared/rejections.ts';

interface Example {
  example: { minimal: object; full: object };
  rejections?: Rejections;
}

const examples = await Promise.all(
  Object.keys(integrations).map(async (name): Promise<[string, Example]> => {
    const path = `../../src/providers/${name.replaceAll('_', '-')}/example.ts`;
    return [name, await import(new URL(path, import.meta.url).href)];
  }),
);

/** The smallest and the largest config of every integration, from `example.ts` in its folder. */
export const integrationConfigs = Object.fromEntries(
  examples.map(([name, { example }]) => [name, example]),
) as Record<IntegrationName, Example['example']>;

/** The rejections of the vendors, from the same files. */
export const integrationRejections: ReadonlyMap<string, Rejections> = new Map(
  examples.flatMap(([name, { rejections }]) => (rejections === undefined ? [] : [[name, rejections]])),
);

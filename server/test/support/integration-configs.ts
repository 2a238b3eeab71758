import { type IntegrationName, integrations } from '../../src/providers/index.ts';

interface Example {
  example: { minimal: object; full: object };
}

/** The smallest and the largest config of every integration: `example.ts` in the provider's folder. */
export const integrationConfigs = Object.fromEntries(
  await Promise.all(
    Object.keys(integrations).map(async (name) => {
      const path = `../../src/providers/${name.replaceAll('_', '-')}/example.ts`;
      const { example }: Example = await import(new URL(path, import.meta.url).href);
      return [name, example];
    }),
  ),
) as Record<IntegrationName, Example['example']>;

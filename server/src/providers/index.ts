/** The table of providers, and tables derived from it. */
import type { Static } from 'typebox';
import * as list from './list.ts';
import type { AnyProvider, Integration, TokenCollection } from './provider.ts';
import type { OriginSetting } from './shared/transport.ts';

/** All integrations by the name that they are stored under. */
export const integrations = { ...list };
export type IntegrationName = keyof typeof integrations;
export type IntegrationConfig<Name extends IntegrationName> = Static<(typeof integrations)[Name]['config']>;

const all = Object.values(integrations) as Integration[];

/**
 * The providers that deliver, by stored name. Their config types differ: create a sender only from a config
 * that was saved under the same name.
 */
export const delivering: ReadonlyMap<string, AnyProvider> = new Map(
  all.filter(isDelivering).map((provider) => [provider.name, provider] as const),
);

/** The allowed members of a broadcast's `overrides.providers`. */
export const overrideKeys: readonly string[] = [
  ...new Set([...delivering.values()].flatMap(({ overrideKey }) => overrideKey ?? [])),
];

/** Returns the token collection of an integration. Throws if it has none. */
export function tokenCollection(name: IntegrationName): TokenCollection {
  const { tokens } = integrations[name] as Integration;
  if (tokens === undefined) throw new Error(`${name} has no tokens`);
  return tokens;
}

/** Returns how an integration is polled for receipts, if it is. */
export function pollsOf(name: string): Integration['polls'] {
  const known = integrations as unknown as Readonly<Record<string, Integration>>;
  return Object.hasOwn(known, name) ? known[name]?.polls : undefined;
}

/** The vendors' default origins, by the setting that replaces each. */
export const vendorOrigins: Readonly<Record<OriginSetting, string>> = Object.fromEntries(
  all.flatMap(({ origins = {} }) => Object.entries(origins)),
);

/** Returns the name of an integration in paths, lists and events. */
export function wireNameOf(name: string, brand: string): string {
  const integration = all.find((one) => one.name === name);
  return (integration?.wireName ?? name).replace('<brand>', brand);
}

function isDelivering(integration: Integration): integration is AnyProvider {
  return 'connect' in integration;
}

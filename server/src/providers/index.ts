/** The table of providers, and the tables that are derived from it. */
import type { Static } from 'typebox';
import * as list from './list.ts';
import type { AnyProvider, Integration, TokenCollection } from './provider.ts';
import type { OriginSetting } from './shared/transport.ts';

/** Every kind of integration that a project can set up, by the name that it is stored under. */
export const integrations = { ...list };
export type IntegrationName = keyof typeof integrations;
export type IntegrationConfig<Name extends IntegrationName> = Static<(typeof integrations)[Name]['config']>;

const all = Object.values(integrations) as Integration[];

/**
 * The providers that deliver, by the name that they are stored under. Their configs differ, so a sender is
 * made from the config that was saved under the same name.
 */
export const delivering: ReadonlyMap<string, AnyProvider> = new Map(
  all.filter(isDelivering).map((provider) => [provider.name, provider] as const),
);

/** The members of a broadcast's `overrides.providers`. */
export const overrideKeys: readonly string[] = [
  ...new Set([...delivering.values()].flatMap(({ overrideKey }) => overrideKey ?? [])),
];

/** The tokens of an integration that has a collection of them. */
export function tokenCollection(name: IntegrationName): TokenCollection {
  const { tokens } = integrations[name] as Integration;
  if (tokens === undefined) throw new Error(`${name} has no tokens`);
  return tokens;
}

/** The vendors' origins, by the settings with which the operator replaces them. */
export const vendorOrigins: Readonly<Record<OriginSetting, string>> = Object.fromEntries(
  all.flatMap(({ origins = {} }) => Object.entries(origins)),
);

/** What clients call an integration: its name in paths, lists and events. */
export function wireNameOf(name: string, brand: string): string {
  const integration = all.find((one) => one.name === name);
  return (integration?.wireName ?? name).replace('<brand>', brand);
}

function isDelivering(integration: Integration): integration is AnyProvider {
  return 'connect' in integration;
}

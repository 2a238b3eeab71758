/** Converts a name of the contract to one of GraphQL: `action_url` to `actionUrl`. */
export function camelCase(name: string): string {
  return name.replace(/_+([a-z0-9])/g, (_all, letter: string) => letter.toUpperCase());
}

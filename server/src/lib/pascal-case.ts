/** Converts a name for types and operations: `ping_email` to `PingEmail`, `user.saved` to `UserSaved`. */
export function pascalCase(name: string): string {
  return name.replace(/(?:^|[._])([a-z])/g, (_all, letter: string) => letter.toUpperCase());
}

/** `ping_email` as it is in names of types and operations: `PingEmail`. */
export function pascalCase(name: string): string {
  return name.replace(/(?:^|_)([a-z])/g, (_all, letter: string) => letter.toUpperCase());
}

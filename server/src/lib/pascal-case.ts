/** Converts snake_case to PascalCase for the names of types and operations: `ping_email` to `PingEmail`. */
export function pascalCase(name: string): string {
  return name.replace(/(?:^|_)([a-z])/g, (_all, letter: string) => letter.toUpperCase());
}

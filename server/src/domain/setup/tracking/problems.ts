/** Returns the problems of tracking settings of any shape: links need the public address of the server. */
export function problemsOfTracking(
  { PUBLIC_URL }: { PUBLIC_URL: string | undefined },
  tracking: { opens?: unknown; clicks?: unknown },
): string[] {
  if (PUBLIC_URL !== undefined) return [];
  return (['opens', 'clicks'] as const)
    .filter((member) => tracking[member] === true)
    .map((member) => `Param '${member}' needs the public address of this server: set its PUBLIC_URL`);
}

/**
 * Why this server cannot track as it is asked to: links need an address that recipients reach it at. Given
 * whatever was sent.
 */
export function problemsOfTracking(
  { PUBLIC_URL }: { PUBLIC_URL: string | undefined },
  tracking: { opens?: unknown; clicks?: unknown },
): string[] {
  if (PUBLIC_URL !== undefined) return [];
  return (['opens', 'clicks'] as const)
    .filter((member) => tracking[member] === true)
    .map(
      (member) =>
        `Param '${member}' can be true only where the server knows the address that recipients reach it at: set its PUBLIC_URL`,
    );
}

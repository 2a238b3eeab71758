import { memberOf } from '../../../lib/members.ts';
import { overrideProblem } from '../../../providers/shared/override.ts';

/**
 * What is wrong with a broadcast, of whatever shape, whose overrides for providers no provider could merge.
 */
export function overrideProblems(sent: unknown): string[] {
  const providers = memberOf(memberOf(sent, 'overrides'), 'providers');
  if (typeof providers !== 'object' || providers === null) return [];
  return Object.entries(providers).flatMap(([name, override]) => {
    const problem = overrideProblem(override);
    return problem === undefined ? [] : [`Param 'overrides.providers.${name.slice(0, 100)}' ${problem}`];
  });
}

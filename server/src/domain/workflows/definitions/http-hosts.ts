import { MAX_STEP_LEVELS } from '../../../contract/workflow.ts';
import { itemsOf, memberOf } from '../../../lib/members.ts';
import { type NamedHost, urlMember } from '../../../lib/named-host.ts';
import { TEMPLATE } from './rendering.ts';

// Templates that follow the host do not change it.
const FIXED_HOST = /^\s*https?:[\\/]*[^{\\/?#]+[\\/?#]/i;

/** Returns the members of a workflow of any shape that name the host of an `http` step without a template. */
export function httpHosts(workflow: unknown): NamedHost[] {
  return hostsOfList(memberOf(workflow, 'steps'), 'steps', 1);
}

function hostsOfList(steps: unknown, path: string, level: number): NamedHost[] {
  if (level > MAX_STEP_LEVELS) return [];
  return itemsOf(steps).flatMap((step, index) => {
    const input = memberOf(step, 'input');
    const at = `${path}.${index}.input`;
    if (memberOf(step, 'command') === 'http') {
      const url = memberOf(input, 'url');
      const isFixed = typeof url === 'string' && (FIXED_HOST.test(url) || !TEMPLATE.test(url));
      return isFixed ? [urlMember(`${at}.url`)] : [];
    }
    if (memberOf(step, 'command') !== 'branch') return [];
    return itemsOf(memberOf(input, 'branches')).flatMap((branch, index) =>
      hostsOfList(memberOf(branch, 'steps'), `${at}.branches.${index}.steps`, level + 1),
    );
  });
}

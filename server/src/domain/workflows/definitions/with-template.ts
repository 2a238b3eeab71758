import type { Queryable } from '../../../db/client.ts';
import { itemsOf, memberOf } from '../../../lib/members.ts';
import { listWorkflows } from './get.ts';

/** Returns the keys of the workflows whose newest steps name this template, up to ten. */
export async function workflowsWithTemplate(
  db: Queryable,
  projectId: string,
  template: string,
): Promise<string[]> {
  const workflows = await listWorkflows(db, projectId);
  return workflows
    .filter(({ steps }) => steps.includes(template) && namesTemplate(JSON.parse(steps), template))
    .slice(0, 10)
    .map(({ key }) => key);
}

/** Whether a broadcast of these steps, or of a branch in them, names the template. */
function namesTemplate(steps: unknown, template: string): boolean {
  return itemsOf(steps).some((step) => {
    const input = memberOf(step, 'input');
    if (memberOf(step, 'command') === 'broadcast')
      return memberOf(memberOf(input, 'template'), 'key') === template;
    return itemsOf(memberOf(input, 'branches')).some((branch) =>
      namesTemplate(memberOf(branch, 'steps'), template),
    );
  });
}

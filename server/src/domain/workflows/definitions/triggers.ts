import { isOwnEvent, type WorkflowTrigger } from '../../../contract/workflow.ts';
import { textArray, uuidArray } from '../../../db/arrays.ts';
import { type Queryable, sql } from '../../../db/client.ts';
import { parseCondition, variablesOf } from '../../../lib/expression.ts';
import { newId } from '../../../lib/ids.ts';
import { itemsOf, memberOf } from '../../../lib/members.ts';
import { unknownVariables } from '../../../lib/variables.ts';
import { followEvents } from '../feed/feed.ts';

const OF_EVENTS = ['event', 'if'];
const OF_SCHEDULES = ['schedule', 'time_zone', 'missed', 'input'];

function isOneKind(trigger: unknown): boolean {
  const has = (name: string) => memberOf(trigger, name) !== undefined;
  return has('event') ? !OF_SCHEDULES.some(has) : has('schedule') && !OF_EVENTS.some(has);
}

/** Returns the problems of triggers of any shape that their schema does not find, except in schedules. */
export async function triggerProblems(triggers: unknown): Promise<string[]> {
  const problems: string[] = [];
  for (const [index, trigger] of itemsOf(triggers).entries()) {
    if (typeof trigger === 'object' && trigger !== null && !isOneKind(trigger))
      problems.push(
        `Param 'triggers.${index}' needs either an event (and if) or a schedule (and ` +
          'time_zone, missed, input)',
      );
    const [event, condition] = [memberOf(trigger, 'event'), memberOf(trigger, 'if')];
    if (typeof event === 'string' && event.startsWith('workflow.'))
      problems.push(`Param 'triggers.${index}.event' must not be an event of workflows`);
    if (typeof condition !== 'string') continue;
    const place = `Param 'triggers.${index}.if'`;
    const parsed = await parseCondition(condition, ['event']);
    if ('problem' in parsed) problems.push(`${place} is not a condition: ${parsed.problem}`);
    else problems.push(...unknownVariables(variablesOf(parsed), { event: 'open' }, place));
  }
  return problems;
}

interface TriggerRow {
  event: string;
  condition: string | null;
  since: string;
}

/** Replaces the triggers of a workflow by events. One that stays also starts runs by events before now. */
export async function saveTriggers(
  tx: Queryable,
  projectId: string,
  key: string,
  triggers: readonly WorkflowTrigger[],
): Promise<void> {
  const rows = triggers.flatMap(({ event, if: condition }, place) =>
    event === undefined ? [] : [{ place, event, condition }],
  );
  if (rows.some(({ event }) => isOwnEvent(event))) await followEvents(tx, [projectId]);
  const before = await tx.query<TriggerRow>(deleteTriggers, [projectId, key]);
  const since = new Map(before.map((row) => [`${row.event} ${row.condition}`, row.since]));
  const now = newId();
  if (rows.length === 0) return;
  await tx.query(insertTriggers, [
    projectId,
    key,
    rows.map(({ place }) => place),
    textArray(rows.map(({ event }) => event)),
    textArray(rows.map(({ condition }) => condition)),
    uuidArray(rows.map(({ event, condition }) => since.get(`${event} ${condition ?? null}`) ?? now)),
  ]);
}

// Primary keys.
const deleteTriggers = sql(
  'delete_workflow_triggers',
  `delete from workflow_triggers
  where project_id = $1 and workflow_key = $2
  returning event, condition, since`,
);
const insertTriggers = sql(
  'insert_workflow_triggers',
  `insert into workflow_triggers (project_id, workflow_key, place, event, condition, since)
  select $1, $2, place, event, condition, since
  from unnest($3::int[], $4::text[], $5::text[], $6::uuid[]) as t (place, event, condition, since)`,
);

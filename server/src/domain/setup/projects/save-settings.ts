import type { ProjectSettings } from '../../../contract/project.ts';
import { type Queryable, sql } from '../../../db/client.ts';
import type { Bus } from '../../ground/bus/messages.ts';
import { newEventId } from '../../ground/events/record.ts';

/** Saves the settings of a project. Does nothing if they are unchanged. */
export async function saveProjectSettings(
  { db, bus }: { db: Queryable; bus: Bus },
  projectId: string,
  settings: ProjectSettings,
): Promise<void> {
  const event = JSON.stringify({ payload: settings });
  const saved = await db.query(updateSettings, [projectId, settings.hmac_required, newEventId(), event]);
  if (saved.length > 0) bus.publish({ type: 'project_changed', projectId });
}

// projects_pkey.
const updateSettings = sql(
  'save_project_settings',
  `with saved as (
    update projects
    set hmac_required = $2
    where id = $1 and hmac_required <> $2
    returning id
  )
  insert into events (project_id, id, type, details)
  select id, $3, 'project.saved', $4
  from saved
  returning id`,
);

import type { ProjectSettings, SaveProject } from '../../../contract/project.ts';
import { type Queryable, sql } from '../../../db/client.ts';
import { canonicalLocale } from '../../../lib/locale.ts';
import type { Bus } from '../../ground/bus/messages.ts';
import { newEventId } from '../../ground/events/record.ts';

/**
 * Saves settings of a project: a given member replaces the stored one, an absent one stays, null clears.
 * Returns all settings. Records nothing if they are unchanged.
 */
export async function saveProjectSettings(
  { db, bus }: { db: Queryable; bus: Bus },
  projectId: string,
  { default_locale: locale, ...others }: SaveProject,
): Promise<ProjectSettings> {
  const given = { ...others, default_locale: locale && canonicalLocale(locale) };
  const [row] = await db.query<{ settings: string; changed: boolean }>(updateSettings, [
    projectId,
    JSON.stringify(given),
    newEventId(),
  ]);
  if (row === undefined) throw new Error(`project ${projectId} does not exist`);
  if (row.changed) bus.publish({ type: 'project_changed', projectId });
  return JSON.parse(row.settings) as ProjectSettings;
}

const TYPES = { display_name: 'text', logo_url: 'text', default_locale: 'text', hmac_required: 'boolean' };
const COLUMNS = Object.keys(TYPES).join(', ');
// `p` is the row when it is written, so that requests which change different settings are all applied.
const NEW_VALUES = Object.entries(TYPES)
  .map(([name, type]) => {
    const given = `($2::jsonb ->> '${name}')::${type}`;
    return `case when $2::jsonb ? '${name}' then ${given} else p.${name} end`;
  })
  .join(', ');
// projects_pkey.
const updateSettings = sql(
  'save_project_settings',
  `with saved as (
    update projects p
    set (${COLUMNS}) = row(${NEW_VALUES})
    where p.id = $1 and (${COLUMNS}) is distinct from (${NEW_VALUES})
    returning ${COLUMNS}
  ),
  recorded as (
    insert into events (project_id, id, type, details)
    select $1, $3, 'project.saved', json_build_object('payload', row_to_json(saved))
    from saved
  )
  select row_to_json(saved)::text as settings, true as changed
  from saved
  union all
  select row_to_json(kept)::text, false
  from (select ${COLUMNS} from projects where id = $1) kept
  where not exists (select from saved)`,
);

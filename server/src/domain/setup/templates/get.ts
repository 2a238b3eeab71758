import type { NewTemplate } from '../../../contract/template.ts';
import { type Queryable, sql } from '../../../db/client.ts';
import { listStatements } from '../../../db/list-statements.ts';
import type { Cursor } from '../../../lib/cursor.ts';
import { unpackJson } from '../../../lib/packed-json.ts';

export type TemplateKind = NonNullable<NewTemplate['kind']>;

/** A template without its texts. */
export interface TemplateRow {
  id: string;
  key: string;
  kind: TemplateKind;
  version: number;
  created_at: Date;
  updated_at: Date;
}

/** What a version of a template consists of. It is stored as JSON. */
export interface TemplateContent {
  kind: TemplateKind;
  default_locale: string;
  locales: NewTemplate['locales'];
  layout: string | null;
}

export interface VersionRow {
  version: number;
  created_at: Date;
}

/** A template with its content as JSON text, which has the kind. */
export type SavedTemplate = Omit<TemplateRow, 'kind'> & {
  content: string;
  /** The keys of the partials that it renders itself, and of its layout. */
  uses: readonly string[];
};

/** A version with its content as JSON text. */
export type SavedVersion = VersionRow & { content: string };

/** Returns the template with this key, if the project has one. */
export function getTemplate(
  db: Queryable,
  projectId: string,
  key: string,
): Promise<SavedTemplate | undefined> {
  return first(db.query<Packed<SavedTemplate>>(selectTemplate, [projectId, key]));
}

/** Returns up to `limit` templates of the project beyond the cursor, nearest first. */
export function listTemplates(
  db: Queryable,
  projectId: string,
  { direction, id, limit }: Cursor,
): Promise<TemplateRow[]> {
  return db.query<TemplateRow>(LIST[direction], [projectId, id, limit]);
}

/** Returns the newest 100 versions of a template, newest first. */
export function listVersions(db: Queryable, projectId: string, key: string): Promise<VersionRow[]> {
  return db.query<VersionRow>(selectVersions, [projectId, key]);
}

/** Returns a version of a template, even if the template was deleted. */
export function getVersion(
  db: Queryable,
  projectId: string,
  key: string,
  version: number,
): Promise<SavedVersion | undefined> {
  return first(db.query<Packed<SavedVersion>>(selectVersion, [projectId, key, version]));
}

type Packed<Saved> = Omit<Saved, 'content'> & { content: Buffer };

async function first<Saved>(rows: Promise<Packed<Saved>[]>): Promise<Saved | undefined> {
  const [row] = await rows;
  return row && ({ ...row, content: unpackJson(row.content) } as Saved);
}

/** Returns the API form of a template or of a version, as JSON text. */
export function templateJson({
  content,
  uses: _uses,
  ...row
}: SavedVersion & { uses?: readonly string[] }): string {
  return `${JSON.stringify(row).slice(0, -1)},${content.slice(1)}`;
}

/** Returns the API form of a template without its texts. */
export function templateRecord({ created_at, updated_at, ...row }: TemplateRow) {
  return { ...row, created_at: created_at.toISOString(), updated_at: updated_at.toISOString() };
}

/**
 * The versions of template `$2` of project `$1`. Rows are compared, because otherwise the planner may sort
 * all of them for the newest.
 */
export const VERSIONS =
  '(project_id, key, version) >= ($1, $2, 0) and (project_id, key, version) <= ($1, $2, 2147483647)';

// Primary keys, both.
const selectTemplate = sql(
  'get_template',
  `select t.id, t.key, t.version, t.uses, t.created_at, t.updated_at, v.content
  from templates t
  cross join lateral (
    select content
    from template_versions
    where project_id = t.project_id and key = t.key and version = t.version
    limit 1
  ) v
  where t.project_id = $1 and t.key = $2`,
);
const selectVersion = sql(
  'get_template_version',
  `select version, created_at, content
  from template_versions
  where project_id = $1 and key = $2 and version = $3`,
);
const selectVersions = sql(
  'list_template_versions',
  `select version, created_at
  from template_versions
  where ${VERSIONS}
  order by project_id desc, key desc, version desc
  limit 100`,
);
// Index templates_listed (project_id, id).
const LIST = listStatements('templates', {
  select: 'id, key, kind, version, created_at, updated_at',
  from: 'templates',
  owner: 'project_id',
});

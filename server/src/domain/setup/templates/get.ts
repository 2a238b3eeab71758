import type { NewTemplate } from '../../../contract/template.ts';
import { type Queryable, sql } from '../../../db/client.ts';
import { listStatements } from '../../../db/list-statements.ts';
import type { Cursor } from '../../../lib/cursor.ts';
import { unpackJson } from '../../../lib/packed-json.ts';
import { type SavedVersion, versionsOf } from '../../ground/versions/versions.ts';

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

/** A template with its content as JSON text, which has the kind. */
export type SavedTemplate = Omit<TemplateRow, 'kind'> & {
  content: string;
  /** The keys of the partials that it renders itself, and of its layout. */
  uses: readonly string[];
};

export const templateVersions = versionsOf('template', 'content');

/** Returns the template with this key, if the project has one. */
export async function getTemplate(
  db: Queryable,
  projectId: string,
  key: string,
): Promise<SavedTemplate | undefined> {
  const [row] = await db.query<Omit<SavedTemplate, 'content'> & { content: Buffer }>(selectTemplate, [
    projectId,
    key,
  ]);
  return row && { ...row, content: unpackJson(row.content) };
}

/** Returns up to `limit` templates of the project beyond the cursor, nearest first. */
export function listTemplates(
  db: Queryable,
  projectId: string,
  { direction, id, limit }: Cursor,
): Promise<TemplateRow[]> {
  return db.query<TemplateRow>(LIST[direction], [projectId, id, limit]);
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

// Primary keys.
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
// Index templates_listed (project_id, id).
const LIST = listStatements('templates', {
  select: 'id, key, kind, version, created_at, updated_at',
  from: 'templates',
  owner: 'project_id',
});

import type { NewTemplate } from '../../../contract/template.ts';
import { textArray } from '../../../db/arrays.ts';
import { type Database, type Queryable, sql } from '../../../db/client.ts';
import { ClientError } from '../../../errors.ts';
import type { Clock } from '../../../lib/clock.ts';
import { newId } from '../../../lib/ids.ts';
import { recordEvents } from '../../ground/events/record.ts';
import { type Examined, examineTemplate } from './examine.ts';
import { getTemplate, type SavedTemplate, type TemplateContent, templateVersions } from './get.ts';
import { levelsAbove, loadParts, partProblems } from './parts.ts';

const MAX_TEMPLATES = 1_000;
// The contents of all templates of a project, as JSON.
const MAX_CHARACTERS = 16 * 1024 * 1024;

type SaveContext = { db: Pick<Database, 'transaction'>; clock: Clock };

/** Creates or replaces a template. New content is a new version. Throws `validation_failed`. */
export async function saveTemplate(
  { db, clock }: SaveContext,
  projectId: string,
  key: string,
  { kind = 'message', default_locale, locales, layout = null }: NewTemplate,
): Promise<SavedTemplate> {
  const content = { kind, default_locale, locales, layout };
  const { problems, partials } = await examineTemplate(content);
  refuse(problems);
  return db.transaction((tx) => save(tx, projectId, key, { content, partials }, new Date(clock.now())));
}

async function save(
  tx: Queryable,
  projectId: string,
  key: string,
  { content, partials }: { content: TemplateContent; partials: Examined['partials'] },
  now: Date,
): Promise<SavedTemplate> {
  await tx.query(lockTemplates, [projectId]);
  const before = await getTemplate(tx, projectId, key);
  const text = JSON.stringify(content);
  if (before?.content === text) return before;
  const { kind, layout } = content;
  if (before !== undefined && (JSON.parse(before.content) as TemplateContent).kind !== kind)
    refuse(["Param 'kind' cannot be changed"]);
  const uses = [...partials.keys(), ...(layout === null ? [] : [layout])];
  const parts = await loadParts(tx, projectId, uses);
  const above = before === undefined ? 0 : await levelsAbove(tx, projectId, key);
  refuse(partProblems({ key, layout, partials }, parts, above));
  if (parts.size > 0) refuse((await examineTemplate(content, parts)).problems);
  await refuseTooMany(tx, projectId, key, text.length);
  const version = await templateVersions.add(tx, projectId, key, text, now);
  const id = newId(now.getTime());
  const size = text.length;
  await tx.query(upsertTemplate, [projectId, key, id, kind, version, textArray(uses), size, now]);
  await recordEvents(tx, [
    { projectId, type: 'template.saved', details: { context: { template_key: key }, payload: { version } } },
  ]);
  const saved = await getTemplate(tx, projectId, key);
  if (saved === undefined) throw new Error(`template ${key} does not exist after it was saved`);
  return saved;
}

function refuse(problems: readonly string[]): void {
  if (problems.length > 0) throw new ClientError('validation_failed', problems.slice(0, MAX_PROBLEMS));
}

const MAX_PROBLEMS = 100;

async function refuseTooMany(tx: Queryable, projectId: string, key: string, size: number): Promise<void> {
  const [others] = await tx.query<{ count: number; size: number }>(measureOthers, [projectId, key]);
  if (others === undefined) return;
  if (others.count >= MAX_TEMPLATES) refuse([`A project can have at most ${MAX_TEMPLATES} templates`]);
  if (others.size + size > MAX_CHARACTERS)
    refuse([
      `Param 'locales' is too long: all templates of a project can have at most ${MAX_CHARACTERS} characters`,
    ]);
}

/**
 * Saves an earlier version as a new version. Returns undefined if there is no such template or version.
 * Throws `validation_failed` if a template that it uses was deleted.
 */
export async function restoreVersion(
  context: SaveContext & { db: Queryable },
  projectId: string,
  key: string,
  version: number,
): Promise<SavedTemplate | undefined> {
  const template = await getTemplate(context.db, projectId, key);
  const found = await templateVersions.get(context.db, projectId, key, version);
  if (template === undefined || found === undefined) return undefined;
  return saveTemplate(context, projectId, key, JSON.parse(found.content));
}

/**
 * Deletes a template. Broadcasts that were accepted with it keep its texts. Returns whether there was one.
 * Throws `validation_failed` if other templates use it, or the workflows that `workflowsWith` returns.
 */
export async function deleteTemplate(
  { db }: { db: Pick<Database, 'transaction'> },
  projectId: string,
  key: string,
  workflowsWith: (tx: Queryable, projectId: string, key: string) => Promise<readonly string[]>,
): Promise<boolean> {
  return db.transaction(async (tx) => {
    await tx.query(lockTemplates, [projectId]);
    const users = await tx.query<{ key: string }>(selectUsers, [projectId, key]);
    if (users.length > 0)
      refuse([`The template ${key} is used by ${users.map((user) => user.key).join(', ')}`]);
    const deleted = await tx.query(removeTemplate, [projectId, key]);
    if (deleted.length === 0) return false;
    const workflows = await workflowsWith(tx, projectId, key);
    if (workflows.length > 0)
      refuse([`The template ${key} is used by the workflows ${workflows.join(', ')}`]);
    await recordEvents(tx, [
      { projectId, type: 'template.deleted', details: { context: { template_key: key } } },
    ]);
    return true;
  });
}

// One change of a project's templates at a time: they use each other.
const lockTemplates = sql(
  'lock_templates',
  "select pg_advisory_xact_lock(hashtextextended('templates ' || $1, 0))",
);
// Primary keys.
const upsertTemplate = sql(
  'save_template',
  `insert into templates (project_id, key, id, kind, version, uses, size, created_at, updated_at)
  values ($1, $2, $3, $4, $5, $6, $7, $8, $8)
  on conflict (project_id, key) do update
  set version = excluded.version, uses = excluded.uses, size = excluded.size,
    updated_at = excluded.updated_at`,
);
const removeTemplate = sql(
  'delete_template',
  'delete from templates where project_id = $1 and key = $2 returning key',
);
const measureOthers = sql(
  'measure_other_templates',
  `select count(*)::int as count, coalesce(sum(size), 0)::int as size
  from templates
  where project_id = $1 and key <> $2`,
);
const selectUsers = sql(
  'users_of_template',
  'select key from templates where project_id = $1 and $2 = any (uses) order by key limit 10',
);

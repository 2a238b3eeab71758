import { textArray } from '../../../db/arrays.ts';
import { type Queryable, sql } from '../../../db/client.ts';
import { unpackJson } from '../../../lib/packed-json.ts';
import type { TemplateContent, TemplateKind } from './get.ts';

/** A template that others render or have as their layout, in its newest version. */
export interface TemplatePart {
  key: string;
  kind: TemplateKind;
  version: number;
  /** The templates that it renders itself, and its layout. */
  uses: readonly string[];
  content: TemplateContent;
}

// How deep partials can be nested.
const MAX_DEPTH = 5;

/** Loads these templates of the project with all that they use, by key. Leaves out unknown ones. */
export async function loadParts(
  db: Queryable,
  projectId: string,
  keys: readonly string[],
): Promise<Map<string, TemplatePart>> {
  if (keys.length === 0) return new Map();
  return unpackParts(await loadPackedParts(db, projectId, keys));
}

/** A template with its content as packed JSON. */
export type PackedPart = Omit<TemplatePart, 'content'> & { content: Uint8Array };

/** Loads them as `loadParts` does, but leaves their contents packed. */
export function loadPackedParts(
  db: Queryable,
  projectId: string,
  keys: readonly string[],
): Promise<PackedPart[]> {
  return db.query<PackedPart>(selectParts, [projectId, textArray(keys)]);
}

export function unpackParts(packed: readonly PackedPart[]): Map<string, TemplatePart> {
  return new Map(
    packed.map(({ content, ...row }) => [
      row.key,
      {
        ...row,
        content: JSON.parse(unpackJson(Buffer.from(content.buffer, content.byteOffset, content.length))),
      },
    ]),
  );
}

/** How deep templates are nested that use this one; stops beyond the limit. */
export async function levelsAbove(db: Queryable, projectId: string, key: string): Promise<number> {
  const [above] = await db.query<{ levels: number }>(countLevelsAbove, [projectId, key, MAX_DEPTH]);
  return above?.levels ?? 0;
}

/**
 * Returns the problems of what a template uses: missing templates, wrong kinds, circles, too many levels.
 * `partials` are the places that render them, by key. `above` is the number of levels of templates that use
 * it.
 */
export function partProblems(
  { key, layout, partials }: { key: string; layout: string | null; partials: ReadonlyMap<string, string> },
  parts: ReadonlyMap<string, TemplatePart>,
  above: number,
): string[] {
  const problems: string[] = [];
  if (layout !== null && parts.get(layout)?.kind !== 'layout')
    problems.push(`Param 'layout' must be the key of a layout: ${layout} is none`);
  for (const [name, place] of partials)
    if (parts.get(name)?.kind !== 'partial')
      problems.push(`Param '${place}' renders ${name}, which is not a partial of the project`);
  if (parts.has(key)) problems.push(`Param 'locales' renders ${key} within itself`);
  else if (above + depthOf([...partials.keys(), ...(layout === null ? [] : [layout])], parts) > MAX_DEPTH)
    problems.push(`Param 'locales' renders partials that are nested in more than ${MAX_DEPTH} levels`);
  return problems;
}

/** How deep these are nested; stops beyond the limit. */
function depthOf(keys: readonly string[], parts: ReadonlyMap<string, TemplatePart>): number {
  let level = new Set(keys);
  let depth = 0;
  for (; level.size > 0 && depth <= MAX_DEPTH; depth += 1)
    level = new Set([...level].flatMap((name) => parts.get(name)?.uses ?? []));
  return depth;
}

// Primary keys. No template uses itself (save.ts), so the recursion ends.
const selectParts = sql(
  'select_template_parts',
  `with recursive parts as (
    select t.*
    from unnest($2::text[]) as k (used)
    cross join lateral (
      select key, kind, version, uses from templates where project_id = $1 and key = used limit 1
    ) t
    union
    select t.*
    from parts p
    cross join lateral unnest(p.uses) as k (used)
    cross join lateral (
      select key, kind, version, uses from templates where project_id = $1 and key = used limit 1
    ) t
  )
  select p.key, p.kind, p.version, p.uses, v.content
  from parts p
  cross join lateral (
    select content
    from template_versions
    where project_id = $1 and key = p.key and version = p.version
    limit 1
  ) v`,
);

// A project has 1,000 templates at most.
const countLevelsAbove = sql(
  'count_levels_above_template',
  `with recursive above as (
    select $2::text collate "C" as key, 0 as level
    union
    select t.key, a.level + 1
    from above a
    join templates t on t.project_id = $1 and a.key = any (t.uses)
    where a.level <= $3
  )
  select max(level) as levels from above`,
);

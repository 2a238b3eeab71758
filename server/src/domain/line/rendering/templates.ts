import { LRUCache } from 'lru-cache';
import { textArray, uuidArray } from '../../../db/arrays.ts';
import { type Queryable, sql } from '../../../db/client.ts';
import { unpackJsonInTurns } from '../../../lib/packed-json.ts';
import { takeTurns } from '../../../lib/take-turns.ts';
import type { TemplateContent } from '../../setup/templates/get.ts';
import { localeIn } from '../../setup/templates/locales.ts';
import type { TemplateReference } from '../broadcasts/stored-broadcast.ts';
import { type MessageParts, MessageTemplate } from './message-template.ts';
import { templateBytes } from './template-bytes.ts';

/** The texts of a template in some versions, by locale. Each is parsed once. */
export class OpenTemplate {
  readonly #parts: MessageParts;
  readonly #texts = new Map<string, Promise<MessageTemplate>>();

  constructor(parts: MessageParts) {
    this.#parts = parts;
  }

  /** Returns the texts for users with this locale in a project with this default. */
  forLocale(wanted: string | null, ofProject: string | null): Promise<MessageTemplate> {
    return this.#in(localeIn(this.#parts.message, wanted, ofProject));
  }

  #in(locale: string): Promise<MessageTemplate> {
    const known = this.#texts.get(locale);
    if (known !== undefined) return known;
    const texts = MessageTemplate.open(this.#parts, locale);
    this.#texts.set(locale, texts);
    return texts;
  }

  /** Whether the texts of the channel differ between users with the same locale, in any locale. */
  async readsUsers(channel: string): Promise<boolean> {
    const between = takeTurns(); // each locale is parsed
    for (const locale of Object.keys(this.#parts.message.locales)) {
      await between();
      if (!(await this.#in(locale)).isForAll(channel)) return true;
    }
    return false;
  }
}

/** The template of a broadcast, ready to be rendered. */
export interface BroadcastTemplate {
  template: OpenTemplate;
  data: object;
}

// The estimate (template-bytes.ts) is about twice what a template usually takes.
const MAX_BYTES = 128_000_000;
const opened = new LRUCache<string, OpenTemplate>({ maxSize: MAX_BYTES });

/** Opens the templates of broadcasts, by the id of the broadcast, with at most one statement. */
export async function openTemplates(
  db: Queryable,
  broadcasts: readonly { id: string; projectId: string; template: Buffer | null }[],
): Promise<Map<string, BroadcastTemplate>> {
  const found = new Map<string, BroadcastTemplate>();
  const missing = new Map<string, { projectId: string; reference: TemplateReference }>();
  const references: { id: string; name: string; reference: TemplateReference }[] = [];
  for (const { id, projectId, template } of broadcasts) {
    if (template === null) continue;
    const reference: TemplateReference = JSON.parse(await unpackJsonInTurns([template]));
    const name = JSON.stringify([projectId, ...versionsIn(reference)]);
    references.push({ id, name, reference });
    if (!opened.has(name)) missing.set(name, { projectId, reference });
  }
  const loaded = await loadVersions(db, missing);
  for (const { id, name, reference } of references) {
    const template = opened.get(name) ?? loaded.get(name);
    if (template === undefined) throw new Error(`the template ${reference.key} has no such version`);
    found.set(id, { template, data: reference.data ?? {} });
  }
  return found;
}

/** The keys and versions of a template and of what it uses, in one order. */
function versionsIn({ key, version, uses }: TemplateReference): [string, number][] {
  return [[key, version], ...Object.entries(uses).sort(([a], [b]) => (a < b ? -1 : 1))];
}

async function loadVersions(
  db: Queryable,
  missing: ReadonlyMap<string, { projectId: string; reference: TemplateReference }>,
): Promise<Map<string, OpenTemplate>> {
  const loaded = new Map<string, OpenTemplate>();
  if (missing.size === 0) return loaded;
  const wanted = [...missing].flatMap(([name, { projectId, reference }]) =>
    versionsIn(reference).map(([key, version]) => ({ name, projectId, key, version })),
  );
  const rows = await db.query<{ place: number; content: Buffer }>(selectVersions, [
    uuidArray(wanted.map((one) => one.projectId)),
    textArray(wanted.map((one) => one.key)),
    wanted.map((one) => one.version),
  ]);
  const contents = new Map<string, Map<string, { content: TemplateContent; json: string }>>();
  for (const { place, content } of rows) {
    const { name = '', key = '' } = wanted[place - 1] ?? {};
    const json = await unpackJsonInTurns([content]);
    contents.set(name, (contents.get(name) ?? new Map()).set(key, { content: JSON.parse(json), json }));
  }
  for (const [name, { reference }] of missing) {
    const { [reference.key]: message, ...others } = Object.fromEntries(contents.get(name) ?? []);
    if (message === undefined) continue;
    const parts = Object.entries(others).map(
      ([key, { content }]) => [key, { key, kind: content.kind, content }] as const,
    );
    const template = new OpenTemplate({ message: message.content, parts: new Map(parts) });
    loaded.set(name, template);
    const { locales } = message.content;
    const ofParts = Object.values(others).map(({ json }) => json);
    const size = templateBytes(message.json, ofParts, Object.keys(locales).length);
    opened.set(name, template, { size });
  }
  return loaded;
}

// Primary key.
const selectVersions = sql(
  'versions_of_templates',
  `select place::int as place, v.content
  from unnest($1::uuid[], $2::text[], $3::int[]) with ordinality as r (project_id, key, version, place)
  join template_versions v using (project_id, key, version)`,
);

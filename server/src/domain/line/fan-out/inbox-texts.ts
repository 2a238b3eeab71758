import { uuidArray } from '../../../db/arrays.ts';
import { type Queryable, sql } from '../../../db/client.ts';
import { takeTurns } from '../../../lib/take-turns.ts';
import { TemplateError } from '../../../lib/template.ts';
import type { NewEvent } from '../../ground/events/record.ts';
import { preferencesUrl, unsubscribeUrl } from '../../ground/links/signed-links.ts';
import { refuseRecipients } from '../../people/users/refuse.ts';
import type { LineContext } from '../context/context.ts';
import { insertTexts, OWN_TEXTS, type TextsRow } from '../notifications/texts.ts';
import {
  type MessageTemplate,
  projectData,
  type RenderedTexts,
  type SharedTexts,
  type TemplateData,
} from '../rendering/message-template.ts';
import { renderTexts } from '../rendering/render-thread.ts';
import { type BroadcastTemplate, openTemplates } from '../rendering/templates.ts';
import { loadUserData, type UserData } from '../routing/condition-data.ts';
import type { AddressedPage, Insertion } from './write-fan-out.ts';

/** Pages with the texts of their notifications. */
export interface PagesWithTexts {
  pages: AddressedPage[];
  /** Of users for whom the template cannot be rendered. */
  events: NewEvent[];
}

// The texts of a page take a fiftieth of it. Twice as much may pass until they are rendered, because they
// wait for others. After 15 s without a statement PostgreSQL would end the transaction.
const MAX_RENDER_MS = 5_000;

type RenderContext = Pick<LineContext, 'config' | 'projects' | 'categories'>;

/** How long the texts of a batch may take. */
class RenderTime {
  readonly #limitMs: number;
  readonly #isForOnePage: boolean;
  #beganMs: number | undefined;
  #workedMs = 0;

  constructor(limitMs: number, pages: number) {
    this.#limitMs = limitMs;
    this.#isForOnePage = pages === 1;
  }

  /**
   * Call this before each text. When the work has taken too long, a single page fails for the users who are
   * left, and a batch of several pages fails as a whole. When the texts have waited too long for others, the
   * job fails, and is repeated.
   */
  check(): void {
    const nowMs = performance.now();
    this.#beganMs ??= nowMs;
    if (this.#workedMs > this.#limitMs) {
      if (this.#isForOnePage) throw new TemplateError('takes too long for all users');
      throw new Error('the templates of the batch take too long, so its pages are rendered one by one');
    }
    if (nowMs - this.#beganMs > 2 * this.#limitMs)
      throw new Error('the templates of the batch have waited too long for others');
  }

  add(ms: number): void {
    this.#workedMs += ms;
  }
}

/**
 * Renders the inbox texts of the broadcasts that have a template, and stores them. Texts that do not differ
 * by user are rendered once for each locale. A user for whom the template cannot be rendered gets nothing:
 * the recipient counts as one that cannot be used. Throws if several pages take too long together: the queue
 * then runs their jobs one by one.
 */
export async function renderInboxTexts(
  context: RenderContext,
  tx: Queryable,
  pages: readonly AddressedPage[],
  insertion: Insertion,
  limitMs = MAX_RENDER_MS,
): Promise<PagesWithTexts> {
  const templated = pages.filter(({ template, userIds }) => template !== null && userIds.length > 0);
  const templates = await openTemplates(tx, templated);
  const users = await loadUsers(tx, templated, templates);
  const time = new RenderTime(limitMs, pages.length);
  const result: PagesWithTexts = { pages: [], events: [] };
  const stored: TextsRow[] = [];
  const refused: { userId: string; broadcastId: string }[] = [];
  for (const page of pages) {
    const template = templates.get(page.id);
    if (template === undefined || page.userIds.length === 0) {
      result.pages.push(page);
      continue;
    }
    const { rows, texts, failed } = await renderPage(context, page, template, users, time);
    stored.push(...rows);
    const problems = [...failed].map(([userId, reason]) => `user ${userId}: ${reason}`);
    result.pages.push({
      ...page,
      userIds: page.userIds.filter((id) => !failed.has(id)),
      notificationIds: page.notificationIds.filter((_, index) => !failed.has(page.userIds[index] ?? '')),
      texts,
      unusable: page.unusable + failed.size,
      errors: [...page.errors, ...problems],
    });
    refused.push(...[...failed.keys()].map((userId) => ({ userId, broadcastId: page.id })));
    for (const [reason, some] of Map.groupBy(failed, ([, why]) => why))
      result.events.push(
        failure(
          page,
          reason,
          some.map(([userId]) => userId),
        ),
      );
  }
  await insertTexts(tx, stored, insertion);
  if (refused.length > 0) await refuseRecipients(tx, refused);
  return result;
}

/** Users as texts read them: of those whose texts do not differ by user, the locale alone. */
interface Users {
  data: ReadonlyMap<string, UserData>;
  locales: ReadonlyMap<string, string | null>;
}

async function loadUsers(
  tx: Queryable,
  pages: readonly AddressedPage[],
  templates: ReadonlyMap<string, BroadcastTemplate>,
): Promise<Users> {
  const read = new Set<string>();
  const others = new Set<string>();
  for (const { id, userIds } of pages) {
    const of = (await templates.get(id)?.template.readsUsers('in_app')) ? read : others;
    for (const userId of userIds) of.add(userId);
  }
  return { data: await loadUserData(tx, [...read]), locales: await loadLocales(tx, [...others]) };
}

async function loadLocales(tx: Queryable, ids: readonly string[]): Promise<Users['locales']> {
  if (ids.length === 0) return new Map();
  const rows = await tx.query<{ id: string; locale: string | null }>(selectLocales, [uuidArray(ids)]);
  return new Map(rows.map(({ id, locale }) => [id, locale]));
}

async function renderPage(
  { config, projects, categories }: RenderContext,
  { id: broadcastId, projectId, category, userIds }: AddressedPage,
  { template, data }: BroadcastTemplate,
  { data: users, locales }: Users,
  time: RenderTime,
): Promise<{ rows: TextsRow[]; texts: string[]; failed: Map<string, string> }> {
  const project = await projects.byId(projectId);
  if (project === undefined) throw new Error('a broadcast of a project that does not exist');
  const { configured } = await categories.of(projectId);
  const critical = configured.get(category ?? '')?.critical === true;
  const ofProject = projectData(project);
  const between = takeTurns();
  const messages = new Map<string | null, MessageTemplate>();
  const shared: SharedTexts = new Map();
  const byLocale = new Map<string, TextsRow>();
  const own: TextsRow[] = [];
  const texts: string[] = [];
  const failed = new Map<string, string>();
  const about = { userId: '', category, channel: 'in_app' };
  // One for all users, because making it takes a tenth of the time of a text.
  const of: TemplateData = {
    user: null,
    data,
    project: ofProject,
    get unsubscribe_url() {
      return critical ? null : unsubscribeUrl(config, project, about);
    },
    get preferences_url() {
      return preferencesUrl(config, project, about);
    },
  };
  for (const userId of userIds) {
    const user = users.get(userId) ?? null;
    const locale = user?.locale ?? locales.get(userId) ?? null;
    const message = messages.get(locale) ?? (await template.forLocale(locale, project.defaultLocale));
    messages.set(locale, message);
    const isForAll = message.isForAll('in_app');
    if (isForAll && byLocale.has(message.locale)) {
      texts.push(message.locale);
      continue;
    }
    await between();
    about.userId = userId;
    of.user = user;
    try {
      time.check();
      const onWorked = (ms: number) => time.add(ms);
      const rendered = await renderTexts('inbox', message, { channel: 'in_app', data: of, shared, onWorked });
      const row = { broadcastId, reader: isForAll ? message.locale : userId, texts: shown(rendered) };
      if (isForAll) byLocale.set(message.locale, row);
      else own.push(row);
      texts.push(isForAll ? message.locale : OWN_TEXTS);
    } catch (error) {
      if (!(error instanceof TemplateError)) throw error;
      failed.set(userId, `The template cannot be rendered: ${error.message}`);
    }
  }
  return { rows: [...byLocale.values(), ...own], texts, failed };
}

function shown({ title, content, actionUrl }: RenderedTexts): TextsRow['texts'] {
  return { title, content, action_url: actionUrl };
}

function failure({ projectId, id }: AddressedPage, reason: string, userIds: readonly string[]): NewEvent {
  const context = { channel: 'in_app', code: 'template_failed' };
  const details = { level: 'error' as const, log: reason, context };
  return { projectId, type: 'delivery.failed', broadcastId: id, userIds, details };
}

// Primary key.
const selectLocales = sql('locales_of_users', 'select id, locale from users where id = any ($1::uuid[])');

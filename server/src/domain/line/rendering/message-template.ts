import type { DataOf, TEMPLATE_DATA } from '../../../contract/readable.ts';
import {
  MAX_ACTION_URL_CHARACTERS,
  MAX_CONTENT_CHARACTERS,
  MAX_TITLE_CHARACTERS,
  type TemplateTexts,
} from '../../../contract/template.ts';
import { TemplateError } from '../../../lib/template.ts';
import { type SetTemplate, TemplateSet, type TextForm } from '../../../lib/template-set.ts';
import type { VariablePath } from '../../../lib/variables.ts';
import type { Project } from '../../setup/projects/cache.ts';
import { senderOf } from '../../setup/projects/sender.ts';
import type { TemplateContent } from '../../setup/templates/get.ts';
import { contentIn, partialsIn } from '../../setup/templates/locales.ts';
import type { TemplatePart } from '../../setup/templates/parts.ts';
import { htmlOf, safeLink, withParagraphs } from './email.ts';
import { clean, hasElements, looksLikeHtml } from './plain-text.ts';

/** What the texts of a template read. */
export interface TemplateData {
  /** Null in texts without a user. */
  user: object | null;
  data: object;
  project: DataOf<typeof TEMPLATE_DATA.project>;
  /** Null in texts without a user, and in those of a critical category. Liquid takes '' for true. */
  readonly unsubscribe_url: string | null;
  /** Null in texts without a user. */
  readonly preferences_url: string | null;
}

/** Returns the `project` that texts read. */
export function projectData(project: Project): TemplateData['project'] {
  const { name, logoUrl } = senderOf(project);
  return { id: project.id, name: name ?? '', logo_url: logoUrl };
}

/** The texts of a template on a channel. */
export interface RenderedTexts {
  title: string;
  content: string | null;
  actionUrl: string | null;
  /** The content has these links itself. */
  has: { actionUrl: boolean; unsubscribeUrl: boolean; preferencesUrl: boolean };
}

/** Texts that are the same for all users, by their template. */
export type SharedTexts = Map<SetTemplate, string>;

/** A message with the templates that it uses. */
export interface MessageParts {
  message: TemplateContent;
  parts: ReadonlyMap<string, Pick<TemplatePart, 'key' | 'kind' | 'content'>>;
}

let nextId = 0;

/** The texts of a template in one language, each parsed once. */
export class MessageTemplate {
  /** A number of its own in this process. */
  readonly id = nextId++;
  readonly parts: MessageParts;
  readonly locale: string;
  readonly #texts: TemplateTexts;
  readonly #set: TemplateSet;
  readonly #layout: string | undefined;
  readonly #ofChannel = new Map<string, TemplateTexts>();
  readonly #read = new Map<string, readonly VariablePath[]>();
  readonly #forAll = new Map<SetTemplate, boolean>();
  readonly #parsed = new Map<Kind, Map<string, ReturnType<TemplateSet['parse']>>>();

  private constructor({ message, parts }: MessageParts, locale: string, set: TemplateSet) {
    this.parts = { message, parts };
    const layout = message.layout === null ? undefined : parts.get(message.layout);
    this.locale = locale;
    this.#texts = message.locales[locale] ?? {};
    this.#set = set;
    this.#layout = layout && contentIn(layout.content, locale);
  }

  /** Opens the texts in a locale of the message. */
  static async open(parts: MessageParts, locale: string): Promise<MessageTemplate> {
    const set = await TemplateSet.open(partialsIn(parts.parts, locale), locale);
    return new MessageTemplate(parts, locale, set);
  }

  /**
   * Renders the texts of a channel. Throws TemplateError. `shared` has texts of earlier calls, with the same
   * data except for the user: those that are the same for all users are rendered once.
   */
  render(channel: string, data: TemplateData, shared?: SharedTexts): RenderedTexts {
    const { title, content, action_url: actionUrl } = this.#textsOn(channel);
    const texts = {
      title: this.#render(title ?? '', TITLE, data, shared),
      content: content == null ? null : this.#render(content, CONTENT, data, shared),
      actionUrl: this.#render(actionUrl ?? '', ACTION_URL, data, shared) || null,
    };
    const whole = channel === 'email' ? this.#inLayout(texts, data) : texts.content;
    if ((whole?.length ?? 0) > MAX_CONTENT_CHARACTERS)
      throw new TemplateError(`the content has more than ${MAX_CONTENT_CHARACTERS} characters`);
    return { ...texts, content: whole, has: this.#links(channel) };
  }

  /** Adds those texts of a channel without a layout to `shared` that are the same for all users. */
  share(channel: string, { title, content, actionUrl }: RenderedTexts, shared: SharedTexts): void {
    const rendered = [title, content ?? '', actionUrl ?? ''];
    for (const [index, template] of this.#parsedOn(channel).entries())
      if (this.#isTextForAll(template)) shared.set(template, rendered[index] ?? '');
  }

  /**
   * Whether the texts of the channel are the same for all users with the same locale. Not if one of them
   * cannot be parsed, because a partial has grown since it was saved: then `render` throws for each user.
   */
  isForAll(channel: string): boolean {
    try {
      return !this.#parsedOn(channel).some(mayReadUser);
    } catch (error) {
      if (error instanceof TemplateError) return false;
      throw error;
    }
  }

  #textsOn(channel: string): TemplateTexts {
    const known = this.#ofChannel.get(channel);
    if (known !== undefined) return known;
    const { overrides, ...texts } = this.#texts;
    const channels: Record<string, TemplateTexts | undefined> = overrides?.channels ?? {};
    const found = { ...texts, ...(Object.hasOwn(channels, channel) ? channels[channel] : {}) };
    this.#ofChannel.set(channel, found);
    return found;
  }

  #inLayout({ title, content, actionUrl }: Omit<RenderedTexts, 'has'>, data: TemplateData): string | null {
    if (this.#layout === undefined) return content;
    const body = content ?? '';
    return this.#render(this.#layout, LAYOUT, {
      ...data,
      title,
      content: this.#set.html(looksLikeHtml(body) ? body : htmlOf(body)),
      // As the button that Belfry adds: no unsafe scheme, and no relative URL.
      action_url: safeLink(actionUrl) === undefined ? null : actionUrl,
    });
  }

  #links(channel: string): RenderedTexts['has'] {
    const variables = channel === 'email' ? this.#variables(channel) : [];
    const reads = (name: string) => variables.some(([root]) => root === name);
    return {
      actionUrl: reads('action_url'),
      unsubscribeUrl: reads('unsubscribe_url'),
      preferencesUrl: reads('preferences_url'),
    };
  }

  /** The variables that the texts of a channel read, with those of partials. */
  #variables(channel: string): readonly VariablePath[] {
    const found = this.#read.get(channel);
    if (found !== undefined) return found;
    const variables = this.#parsedOn(channel).flatMap((one) => one.variables());
    this.#read.set(channel, variables);
    return variables;
  }

  #parsedOn(channel: string): SetTemplate[] {
    const { title = '', content, action_url: actionUrl } = this.#textsOn(channel);
    return [
      this.#parse(title, TITLE),
      this.#parse(content ?? '', CONTENT),
      this.#parse(actionUrl ?? '', ACTION_URL),
      ...(channel === 'email' ? [this.#parse(this.#layout ?? '', LAYOUT)] : []),
    ];
  }

  #render(text: string, kind: Kind, data: object, shared?: SharedTexts): string {
    const { finish } = kind;
    if (!text.includes('{')) return finish(text);
    const template = this.#parse(text, kind);
    if (shared === undefined || !this.#isTextForAll(template)) return finish(template.render(data));
    let rendered = shared.get(template);
    if (rendered === undefined) {
      rendered = finish(template.render(data));
      shared.set(template, rendered);
    }
    return rendered;
  }

  #isTextForAll(template: SetTemplate): boolean {
    const isForAll = this.#forAll.get(template) ?? !mayReadUser(template);
    this.#forAll.set(template, isForAll);
    return isForAll;
  }

  #parse(text: string, kind: Kind): SetTemplate {
    const ofKind = this.#parsed.get(kind) ?? new Map<string, ReturnType<TemplateSet['parse']>>();
    let parsed = ofKind.get(text);
    if (parsed === undefined) {
      parsed = this.#set.parse(text, kind.form);
      this.#parsed.set(kind, ofKind.set(text, parsed));
    }
    if ('problem' in parsed) throw new TemplateError(parsed.problem);
    return parsed;
  }
}

/** A text of a message: in which form it is rendered, and how it is shown. */
interface Kind {
  form: TextForm;
  /** Throws TemplateError. */
  finish: (rendered: string) => string;
}

const TITLE: Kind = {
  form: 'text',
  finish(rendered) {
    const title = clean(rendered).replace(/\s+/g, ' ').trim();
    if (title === '') throw new TemplateError('the title is empty');
    return cut(title);
  },
};
const CONTENT: Kind = { form: 'html', finish: (rendered) => withLines(clean(rendered)) };
const ACTION_URL: Kind = {
  form: 'text',
  finish(rendered) {
    const url = clean(rendered).trim();
    if (url.length > MAX_ACTION_URL_CHARACTERS)
      throw new TemplateError(`the action_url has more than ${MAX_ACTION_URL_CHARACTERS} characters`);
    return url;
  },
};
const LAYOUT: Kind = { form: 'html', finish: (rendered) => rendered };

// The names of what differs by user, unless they are members (but a range such as `1..user.age` has dots,
// too); names that are computed, such as `[data.name]`; and expressions in strings. The library's analysis of
// variables misses some of these, and the texts of a user must not go to another.
const OF_USERS = /(?<!(?<!\.)\.)\b(?:user|unsubscribe_url|preferences_url)\b|(?<![\w\]'"?-])\[|_exp\b/;

function mayReadUser(template: SetTemplate): boolean {
  return template.mentions(OF_USERS);
}

/** A text without elements is no HTML to its author, even if an output was escaped: it keeps its lines. */
function withLines(content: string): string {
  return looksLikeHtml(content) && !hasElements(content) ? withParagraphs(content) : content;
}

function cut(title: string): string {
  if (title.length <= MAX_TITLE_CHARACTERS) return title;
  return `${title.slice(0, MAX_TITLE_CHARACTERS - 1).replace(/[\ud800-\udbff]$/, '')}…`;
}

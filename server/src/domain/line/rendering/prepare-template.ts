import type { Config } from '../../../config.ts';
import { Limiter } from '../../../lib/limiter.ts';
import { takeTurns } from '../../../lib/take-turns.ts';
import { preferencesUrl } from '../../ground/links/preferences-link.ts';
import { unsubscribeUrl } from '../../ground/links/unsubscribe-link.ts';
import type { Project } from '../../setup/projects/cache.ts';
import { userData } from '../routing/condition-data.ts';
import type { LoadedUser, Prepared } from './draft.ts';
import { prepareEmail } from './email.ts';
import { projectData, type RenderedTexts } from './message-template.ts';
import { plainTextOn } from './plain-text.ts';
import type { BroadcastTemplate } from './templates.ts';

/** A delivery whose texts are made by a template. */
interface Templated {
  config: Config;
  project: Project;
  template: BroadcastTemplate;
  category: string | null;
  channel: string;
  user: LoadedUser;
}

// The deliveries of a batch are rendered one after the other, so that others have their turn between them.
const oneAtATime = new Limiter({ maxCount: 1, maxWeight: Number.POSITIVE_INFINITY });
const between = takeTurns();

/** Texts that are the same for all users with a locale, by channel and locale. */
const shared = new WeakMap<BroadcastTemplate, Map<string, Prepared>>();

/** Prepares the texts of a template for a user. Throws TemplateError. */
export function prepareTemplate(templated: Templated): Promise<Prepared> {
  return oneAtATime.run(1, async () => {
    const { config, project, template, category, channel, user } = templated;
    const message = await template.template.forLocale(user.locale, project.defaultLocale);
    const name = `${channel} ${message.locale}`;
    const known = shared.get(template)?.get(name);
    if (known !== undefined) return known;
    await between();
    const rendered = message.render(channel, {
      user: userData(user),
      data: template.data,
      project: projectData(project),
      get unsubscribe_url() {
        return unsubscribeUrl(config, project, { userId: user.id, category, channel });
      },
      get preferences_url() {
        return preferencesUrl(config, project, { userId: user.id, category });
      },
    });
    const prepared = { ...prepare(channel, rendered), locale: message.locale };
    if (message.isForAll(channel))
      shared.set(template, (shared.get(template) ?? new Map()).set(name, prepared));
    return prepared;
  });
}

function prepare(channel: string, { title, content, actionUrl, has }: RenderedTexts): Prepared {
  const texts = { title, content, actionUrl };
  if (channel !== 'email') return { ...texts, text: plainTextOn(channel, content) };
  const email = prepareEmail({ ...texts, actionUrl: has.actionUrl ? null : actionUrl });
  return { ...texts, email, has };
}

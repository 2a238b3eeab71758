import { delivering, integrations } from '../../providers/index.ts';
import type { Integration } from '../../providers/provider.ts';
import { type AnyProvider, isRejection, type Rate, type SendOutcome } from '../../providers/provider.ts';
import type { Guide } from '../../providers/shared/guide.ts';
import { configFields } from './config-fields.ts';
import { EXAMPLE_MESSAGES } from './example-messages.ts';
import { code, page, table } from './markdown.ts';

/** The reference pages of all integrations by name, and their list as `index`. */
export async function providerPages(): Promise<Record<string, string>> {
  const all = Object.values(integrations) as Integration[];
  const pages = await Promise.all(all.map(async (one) => [one.name, await pageOf(one)] as const));
  return Object.fromEntries([['index', indexPage(all)], ...pages]);
}

function indexPage(all: readonly Integration[]): string {
  const rows = all.map((one) => [
    `[${code(routeOf(one))}](${one.name}.md)`,
    one.channel === undefined ? '' : code(one.channel),
    one.title,
  ]);
  return page(
    'Providers',
    'The integrations that a project can set up with `PUT /v2/integrations/<name>`.',
    table(['Name', 'Channel', 'What it is'], rows),
  );
}

async function pageOf(integration: Integration): Promise<string> {
  const route = code(`/v2/integrations/${routeOf(integration)}`);
  const { channel, docs, title } = integration;
  const purpose = channel === undefined ? 'Receives events.' : `Delivers on the channel ${code(channel)}.`;
  const provider = delivering.get(integration.name);
  const sections = [
    configuration(integration),
    ...(provider === undefined ? [] : await deliverySections(provider)),
    reports(integration),
  ];
  return page(
    `${title} (${code(routeOf(integration))})`,
    `${purpose} \`PUT\`, \`GET\` and \`DELETE\` ${route} with a Project JWT. See also <${docs}>.`,
    sections.filter((section) => section !== '').join('\n'),
  );
}

function routeOf({ name, wireName = name }: Integration): string {
  return wireName;
}

async function deliverySections(provider: AnyProvider): Promise<string[]> {
  const guide = (await provider.guide()).guide as Guide<unknown>;
  return [message(provider, guide), limits(provider, guide), responses(provider, guide)];
}

function configuration({ config }: Integration): string {
  const rows = configFields(config).map(({ name, type, required, help }) => [
    code(name),
    required ? 'yes' : '',
    type,
    help,
  ]);
  const [example] = (config as { examples?: unknown[] }).examples ?? [];
  return [
    '## Configuration\n\n',
    table(['Field', 'Required', 'Type', 'Meaning'], rows),
    ...(example === undefined ? [] : ['\n', block('json', JSON.stringify(example, null, 2))]),
  ].join('');
}

/** The message that `build` makes, and what an override changes. */
function message(
  { channel, build, config, overrideKey }: AnyProvider,
  { override, buildsMessage }: Guide<unknown>,
): string {
  const example = (config as { examples?: unknown[] }).examples?.[0];
  const built: unknown = build(EXAMPLE_MESSAGES[channel] as never, example as never);
  const parts = ['## What is sent\n\n'];
  if (typeof built === 'object' && built !== null && !isRejection(built)) {
    const { language, text } = bodyOf(buildsMessage ? { message: built } : built);
    parts.push('The body, for a message that has everything:\n\n', block(language, text));
  }
  const key = `overrides.providers.${overrideKey}`;
  if (override === undefined) parts.push('\nThere is no override for it in a broadcast.\n');
  else
    parts.push(
      `\n${code(key)} of a broadcast is merged into ${override.into}, by JSON merge patch `,
      '([RFC 7396](https://www.rfc-editor.org/rfc/rfc7396)): ',
      'objects are merged, everything else is replaced, `null` removes a member. ',
      `An override never changes ${override.locked.join(', ')}. `,
      'Its size is checked afterwards.',
      override.notes === undefined ? '\n' : ` ${override.notes}\n`,
    );
  return parts.join('');
}

function bodyOf(built: { body?: unknown; raw?: unknown; payload?: unknown; message?: unknown }): {
  language: string;
  text: string;
} {
  const { body, raw, payload } = built;
  const text = [body, raw, payload].find((one) => typeof one === 'string' || Buffer.isBuffer(one));
  const content = text === undefined ? JSON.stringify(built.message ?? built) : String(text);
  try {
    return { language: 'json', text: JSON.stringify(JSON.parse(content), null, 2) };
  } catch {
    const isForm = !content.includes('\n');
    const shown = [...new URLSearchParams(content)].map(
      ([name, value]) => `${name}=${JSON.stringify(value)}`,
    );
    return { language: 'text', text: isForm ? shown.join('\n') : content.replaceAll('\r\n', '\n') };
  }
}

function limits({ rates, config }: AnyProvider, guide: Guide<unknown>): string {
  const [example] = (config as { examples?: unknown[] }).examples ?? [];
  const rows = [
    ...guide.limits,
    ...rateRows('messages of the integration', rates?.integration?.(example as never) ?? []),
    ...rateRows('messages to one destination', rates?.destination?.rates ?? []),
  ];
  return rows.length === 0 ? '' : `## Limits\n\n${table(['Of', 'At most', 'What is beyond'], rows)}`;
}

function rateRows(what: string, rates: readonly Rate[]): string[][] {
  const texts = rates.map(({ limit, windowMs }) => `${limit} in ${durationInWords(windowMs)}`).join('; ');
  return texts === '' ? [] : [[what, texts, 'deferred, which is not an attempt']];
}

const OTHERWISE =
  'Other responses are classified by their status: 401 and 403 blame the configuration, ' +
  '408, 425, 429 and 5xx are temporary, and other 4xx blame the message. ' +
  'After 502, 504 or a broken connection the message may have been accepted.';

function responses(provider: AnyProvider, { responses: all, otherwise = OTHERWISE }: Guide<unknown>): string {
  const rows = all.map(([description, reply]) => {
    const outcome = provider.classify(reply as never);
    const given = 'code' in outcome && outcome.code !== undefined ? code(outcome.code) : '';
    return [description, given, blameOf(outcome), consequenceOf(outcome)];
  });
  const head = ['Response', 'Code in events', 'Blamed', 'Consequence'];
  return `## What responses mean\n\n${otherwise}\n\n${table(head, rows)}`;
}

function blameOf(outcome: SendOutcome): string {
  switch (outcome.kind) {
    case 'sent':
      return '';
    case 'retry':
      return outcome.suspect === undefined
        ? 'the provider or the network'
        : 'the provider, the network or the integration';
    case 'rejected':
      return outcome.suspect === undefined ? BLAMED[outcome.scope] : 'the recipient or the integration';
    case 'token_gone':
      return outcome.suspect === undefined ? 'the recipient' : 'the recipient or the integration';
  }
}

const BLAMED = { message: 'the message', address: 'the recipient', config: 'the integration' };

function consequenceOf(outcome: SendOutcome): string {
  switch (outcome.kind) {
    case 'sent':
      return 'Sent.';
    case 'retry': {
      const { retryAfterMs: waitMs, ambiguous } = outcome;
      const when =
        waitMs === undefined ? '' : waitMs === 0 ? ' at once' : ` after ${durationInWords(waitMs)}`;
      return `Retried${when}.${ambiguous ? ' The message may have been accepted.' : ''}`;
    }
    case 'rejected':
      return outcome.suspect === undefined ? REJECTED[outcome.scope] : REJECTED.either;
    case 'token_gone': {
      const those = outcome.scope === 'token' ? 'The token is' : 'All tokens of the installation are';
      if (outcome.suspect !== undefined)
        return (
          `${those} discarded if the integration has reached others since: ` +
          'a wrong configuration has the same response.'
        );
      return `${those} discarded${outcome.goneAt === undefined ? '' : ', unless saved again since'}.`;
    }
  }
}

const REJECTED = {
  message: 'The delivery fails.',
  address: 'The delivery fails, and the address is suppressed.',
  config: 'The delivery fails, and the integration is paused; the channel’s next integration is used.',
  either:
    'The channel’s next integration is used; without one the delivery fails. ' +
    'The integration is paused after failures for ten users in a row.',
};

function reports({ name, receives, receipts, polls, wireName = name }: Integration): string {
  const path = code(`POST /v2/integrations/${wireName}/webhooks/incoming/{id}`);
  const paragraphs = [
    ...(receives === undefined
      ? []
      : [`The provider's webhooks are received at ${path}, with the integration's \`id\`, and verified.`]),
    ...(receipts === undefined
      ? []
      : [
          `The provider's reports on messages are received at ${path} and verified: ` +
            '[set them up](../../guides/receipts.md).',
        ]),
    ...(polls === undefined
      ? []
      : [
          'Belfry polls the provider for the delivery status ' +
            `${polls.afterMs.map(durationInWords).join(', then ')} after sending.`,
        ]),
  ];
  return paragraphs.length === 0 ? '' : `## Reports\n\n${paragraphs.join('\n')}\n`;
}

function durationInWords(ms: number): string {
  const units: [number, string][] = [
    [86_400_000, 'day'],
    [3_600_000, 'hour'],
    [60_000, 'minute'],
    [1_000, 'second'],
  ];
  const [unitMs, unit] = units.find(([size]) => ms >= size && ms % size === 0) ?? [1_000, 'second'];
  const count = ms / unitMs;
  return count === 1 ? `a${unit === 'hour' ? 'n' : ''} ${unit}` : `${count} ${unit}s`;
}

function block(language: string, text: string): string {
  return `\`\`\`${language}\n${text.trimEnd()}\n\`\`\`\n`;
}

import { type Static, Type } from 'typebox';
import { MAX_LOCALE_CHARACTERS } from '../lib/locale.ts';
import { ChannelOverrides } from './broadcast.ts';
import { Channel } from './channel.ts';
import {
  described,
  FreeObject,
  Id,
  Locale,
  nullable,
  oneOf,
  page,
  pageQuery,
  readOnly,
  Timestamp,
} from './common.ts';
import { TemplateKey } from './template-key.ts';

const MAX_LOCALES = 100;
/** The longest texts that a template can make: those of a broadcast and its overrides. */
export const MAX_TITLE_CHARACTERS = 255;
export const MAX_CONTENT_CHARACTERS = 1_048_576;
export const MAX_ACTION_URL_CHARACTERS = 2_048;

const texts = {
  title: Type.Optional(Type.String({ minLength: 1, maxLength: 2_048, description: 'A text without HTML.' })),
  content: Type.Optional(
    nullable(
      Type.String({
        maxLength: 262_144,
        description: 'HTML or a plain text. Outputs are escaped; `{{ data.html | raw }}` is not.',
      }),
    ),
  ),
  action_url: Type.Optional(
    nullable(Type.String({ maxLength: 8_192, description: 'The address that a click opens.' })),
  ),
};

const ChannelTexts = Type.Object(texts, { title: 'TemplateChannelTexts', additionalProperties: false });

const TemplateTexts = Type.Object(
  {
    ...texts,
    overrides: Type.Optional(
      nullable(
        Type.Object(
          {
            channels: Type.Optional(
              Type.Object(
                Object.fromEntries(
                  Object.keys(ChannelOverrides.properties).map((name) => [name, Type.Optional(ChannelTexts)]),
                ),
                { title: 'TemplateChannelOverrides', additionalProperties: false },
              ),
            ),
          },
          { title: 'TemplateOverrides', additionalProperties: false },
        ),
      ),
    ),
  },
  {
    title: 'TemplateTexts',
    additionalProperties: false,
    description:
      'The texts in one language. A message needs a title in each. A layout and a partial have a `content` ' +
      'alone.',
  },
);
export type TemplateTexts = Static<typeof TemplateTexts>;

const kind = oneOf(['message', 'layout', 'partial'], {
  description:
    'A `message` can be sent. A `layout` is HTML around the content of e-mails, which it has at ' +
    "`{{ content }}`. A `partial` is a part of other templates: `{% render 'key' %}`.",
});

const localeName = (description: string) =>
  Type.String({ minLength: 2, maxLength: MAX_LOCALE_CHARACTERS, description, examples: ['en'] });

const exampleLocales = {
  en: {
    title: 'Welcome, {{ user.first_name | default: "friend" }}',
    content: '<p>Your plan is {{ data.plan }}.</p>',
    overrides: { channels: { sms: { content: 'Your plan is {{ data.plan }}.' } } },
  },
  de: {
    title: 'Willkommen, {{ user.first_name | default: "du" }}',
    content: '<p>Dein Tarif ist {{ data.plan }}.</p>',
  },
};

const members = {
  default_locale: localeName(
    "The locale for a user if the template has texts neither for the user's locale nor for the project's.",
  ),
  locales: Type.Unsafe<Record<string, TemplateTexts>>({
    type: 'object',
    minProperties: 1,
    maxProperties: MAX_LOCALES,
    additionalProperties: TemplateTexts,
    examples: [exampleLocales],
    description:
      'The texts by locale (BCP 47), such as `en` or `pt-BR`. A user with `pt-BR` gets the texts of ' +
      '`pt-BR`, or else of `pt`, or else of the `default_locale` of the project, or else of this one.',
  }),
};

const layoutKey = nullable(
  described(TemplateKey, 'The key of the layout of its e-mails. Only a message has one.'),
);

const record = {
  id: Id,
  key: described(TemplateKey, 'The key of the template.'),
  kind,
  version: Type.Integer({ description: 'Counts the changes of the template, from 1.' }),
  created_at: Timestamp,
  updated_at: Timestamp,
};

/** The body of `PUT /templates/{template_key}`. */
export const NewTemplate = Type.Object(
  {
    kind: Type.Optional(kind),
    ...members,
    layout: Type.Optional(layoutKey),
    id: Type.Optional(readOnly(record.id)),
    key: Type.Optional(readOnly(record.key)),
    version: Type.Optional(readOnly(record.version)),
    created_at: Type.Optional(readOnly(Timestamp)),
    updated_at: Type.Optional(readOnly(Timestamp)),
  },
  {
    title: 'TemplateInput',
    additionalProperties: false,
    examples: [
      {
        default_locale: 'en',
        locales: exampleLocales,
      },
    ],
  },
);
export type NewTemplate = Static<typeof NewTemplate>;

export const Template = Type.Object({ ...record, ...members, layout: layoutKey }, { title: 'Template' });

export const TemplatePage = page(
  Type.Object(record, { title: 'TemplateRecord', description: 'A template without its texts.' }),
);
export const TemplateListQuery = Type.Object(pageQuery);

const version = { version: Type.Integer(), created_at: Timestamp };

export const TemplateVersion = Type.Object(
  { ...version, kind, ...members, layout: layoutKey },
  { title: 'TemplateVersion' },
);

export const TemplateVersionList = Type.Object(
  {
    items: Type.Array(Type.Object(version, { title: 'TemplateVersionRecord' }), {
      description: 'The newest 100, newest first.',
    }),
  },
  { title: 'TemplateVersionList' },
);

export const TemplateInPath = Type.Object({
  template_key: Type.String({ description: 'The key of the template.', examples: ['welcome'] }),
});
export const TemplateVersionInPath = Type.Object({
  ...TemplateInPath.properties,
  version: Type.String({ description: 'The number of the version.', examples: ['1'] }),
});

/** The body of `POST /templates/{template_key}/preview`. */
export const PreviewTemplate = Type.Object(
  {
    channel: Channel,
    locale: Type.Optional(
      nullable(
        described(Locale, 'Default: that of `user`, or else those of the project and of the template.'),
      ),
    ),
    user: Type.Optional(nullable(described(FreeObject, 'Members of a user that does not need to exist.'))),
    data: Type.Optional(nullable(described(FreeObject, 'The `data` of a broadcast.'))),
  },
  {
    title: 'TemplatePreviewInput',
    additionalProperties: false,
    examples: [{ channel: 'email', locale: 'de', user: { first_name: 'Ada' }, data: { plan: 'pro' } }],
  },
);
export type PreviewTemplate = Static<typeof PreviewTemplate>;

export const TemplatePreview = Type.Object(
  {
    locale: Type.String({ description: 'The locale of the texts.' }),
    title: Type.String({ description: 'The title, or the subject of the e-mail.' }),
    content: nullable(
      Type.String({ description: 'The content: HTML of the e-mail, and the text on all other channels.' }),
    ),
    action_url: nullable(Type.String()),
    text: Type.Optional(Type.String({ description: 'The plain text of the e-mail.' })),
    bytes: Type.Integer({ description: 'The size of these texts in UTF-8; of an e-mail, that of its HTML.' }),
    max_bytes: nullable(
      Type.Integer({
        description:
          'The size that fits the channel, with what the provider adds. Longer push messages are ' +
          'shortened, and Gmail clips longer e-mails. `null` if the channel counts characters.',
      }),
    ),
  },
  {
    title: 'TemplatePreview',
    examples: [
      {
        locale: 'de',
        title: 'Willkommen, Ada',
        content: 'Dein Tarif ist pro.',
        action_url: null,
        bytes: 34,
        max_bytes: 4096,
      },
    ],
  },
);
export type TemplatePreview = Static<typeof TemplatePreview>;

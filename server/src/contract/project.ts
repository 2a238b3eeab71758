import { type Static, Type } from 'typebox';
import { described, Id, Locale, nullable, storedString } from './common.ts';

/** What a project decides about itself. */
const settings = {
  display_name: nullable(
    storedString({
      minLength: 1,
      maxLength: 255,
      description:
        'The name that users see in e-mails, and on the pages for preferences and to unsubscribe. `null`: ' +
        'the `name` of the project, unless that is `default`.',
    }),
  ),
  logo_url: nullable(
    Type.String({
      maxLength: 2048,
      format: 'uri',
      pattern: '^https://[A-Za-z0-9.-]+(:[0-9]+)?([/?#]|$)',
      'x-problem': 'must be an https URL',
      examples: ['https://shop.example/logo.png'],
      description:
        'The logo in e-mails, and on the pages for preferences and to unsubscribe. It is shown 40 pixels ' +
        'high.',
    }),
  ),
  default_locale: nullable(
    described(
      Locale,
      'The language of the fixed texts for users whose own is unknown or not available, as a BCP 47 tag.',
    ),
  ),
  hmac_required: Type.Boolean({
    description:
      'Whether users of the v1 API must prove who they are by an HMAC. Without it, everyone who knows the ' +
      'public API key and guesses an external id can read the inbox of that user.',
  }),
};

/** The body of `PUT /project`. */
export const SaveProject = Type.Partial(Type.Object(settings), {
  title: 'ProjectInput',
  additionalProperties: false,
  minProperties: 1,
  examples: [{ display_name: 'The Shop', logo_url: 'https://shop.example/logo.png', default_locale: 'de' }],
  description: 'Members in the body replace stored values, missing members stay, and `null` clears.',
});
export type SaveProject = Static<typeof SaveProject>;

export const ProjectSettings = Type.Object(settings, {
  title: 'ProjectSettings',
  examples: [{ display_name: 'The Shop', logo_url: null, default_locale: 'de', hmac_required: true }],
});
export type ProjectSettings = Static<typeof ProjectSettings>;

export const ProjectRecord = Type.Object(
  {
    id: described(Id, 'The id of the project.'),
    name: Type.String(),
    api_key: Type.String({ description: 'The public key, which identifies the project.' }),
    ...settings,
  },
  { title: 'Project' },
);

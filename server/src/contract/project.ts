import { type Static, Type } from 'typebox';
import { described, Id } from './common.ts';

/** What a project decides about itself. */
const settings = {
  hmac_required: Type.Boolean({
    description:
      'Whether users of the v1 API must prove who they are by an HMAC. Without it, everyone who knows the ' +
      'public API key and guesses an external id can read the inbox of that user.',
  }),
};

export const ProjectSettings = Type.Object(settings, {
  title: 'ProjectSettings',
  additionalProperties: false,
  examples: [{ hmac_required: true }],
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

import { type Static, type TObject, type TSchema, Type } from 'typebox';
import { described, Id, nullable, oneOf, page, Timestamp } from './common.ts';

const id = Type.Optional(described(Id, 'Which one, where the project has several of this provider.'));

/** Which of several integrations of one provider is meant. */
export const IntegrationQuery = Type.Object({ id }, { additionalProperties: false });

export const SaveIntegrationQuery = Type.Object(
  {
    id,
    verify: Type.Optional(
      Type.Boolean({
        default: false,
        description:
          'Tries the config out before it is saved: keys that can be no keys, and what the provider refuses, are a 422, and so is a provider that does not answer. Providers that nothing can be asked of take every config.',
      }),
    ),
  },
  { additionalProperties: false },
);

const at = (description: string) => Type.Unsafe<string>({ ...Timestamp, description });

/** Why no messages leave by an integration. */
export const IntegrationState = Type.Object(
  {
    status: oneOf(['paused']),
    since: at('When it was paused.'),
    until: at(
      'From then on one message at a time tries whether it works again. Saving it again ends the pause at once.',
    ),
    code: Type.Optional(
      Type.String({ description: 'The error that paused it, in a word of the provider or ours.' }),
    ),
    reason: Type.String({ description: 'The same in words, for people.' }),
    party: Type.Optional(
      Type.String({
        description:
          'Where only one of its hosts or workspaces is concerned: which. Messages to others go on.',
      }),
    ),
  },
  {
    title: 'IntegrationState',
    description:
      'Only while it is paused: its provider refuses it, or did not answer many times in a row. Its messages wait, or go over the next integration of the channel.',
  },
);
export type IntegrationState = Static<typeof IntegrationState>;

/** An integration in lists, under the `name` that is part of its paths. */
export function integrationRecord(
  title: string,
  { name, config, delivers }: { name: string; config: TObject; delivers: boolean },
) {
  return Type.Object(
    {
      name: Type.Literal(name),
      id: Id,
      config: nullable(config),
      error: Type.Optional(Unreadable),
      ...(delivers ? { state: Type.Optional(IntegrationState) } : {}),
    },
    { title },
  );
}

/** A page of integrations of all these providers. */
export function anyIntegrationPage(records: ReturnType<typeof integrationRecord>[]) {
  return page(Type.Union(records, { title: 'Integration' }) as TSchema);
}

const Unreadable = Type.Object(
  {
    code: Type.Literal('config_unreadable'),
    message: Type.String({ description: 'Which key is missing, and what to do.' }),
  },
  {
    title: 'UnreadableConfig',
    additionalProperties: false,
    description:
      'Only there when `config` is `null`: it was sealed with a key that this server does not have, and the integration sends nothing. ' +
      'Save it again, or start the server with that key.',
    examples: [
      {
        code: 'config_unreadable',
        message:
          'The config was sealed with the key 1f3a5c7e, which this server does not have: add it to SECRET_KEY, or save the integration again',
      },
    ],
  },
);

export const EmptyObject = Type.Object({}, { title: 'Empty', additionalProperties: false });

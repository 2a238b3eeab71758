import { type Static, type TObject, type TSchema, Type } from 'typebox';
import { pascalCase } from '../lib/pascal-case.ts';
import type { Integration } from '../providers/provider.ts';
import { described, Id, nullable, oneOf, page, Timestamp } from './common.ts';

const id = Type.Optional(described(Id, 'The integration, if the project has several of this provider.'));

/** Selects one of several integrations of a provider. */
export const IntegrationQuery = Type.Object({ id }, { additionalProperties: false });

export const SaveIntegrationQuery = Type.Object(
  {
    id,
    verify: Type.Optional(
      Type.Boolean({
        default: false,
        description:
          'Tests the config before it is saved. Malformed keys, a rejection by the provider, or a provider ' +
          'that does not respond are a 422. Providers without a way to test accept every config.',
      }),
    ),
  },
  { additionalProperties: false },
);

const at = (description: string) => Type.Unsafe<string>({ ...Timestamp, description });

/** Why an integration sends no messages. */
export const IntegrationState = Type.Object(
  {
    status: oneOf(['paused']),
    since: at('When it was paused.'),
    until: at(
      'From then on, one message at a time tests whether it works again. Saving the integration ends the ' +
        'pause at once.',
    ),
    code: Type.Optional(
      Type.String({ description: 'The error that paused it, as a word of Belfry or of the provider.' }),
    ),
    reason: Type.String({ description: 'The error that paused it, for people.' }),
    party: Type.Optional(
      Type.String({
        description: 'The only host or workspace that is affected. Messages to others are sent.',
      }),
    ),
  },
  {
    title: 'IntegrationState',
    description:
      'Only while it is paused, because its provider rejects the config or repeatedly did not respond. Its ' +
      'messages wait, or use the next integration of the channel.',
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
    message: Type.String({ description: 'The missing key, and what to do.' }),
  },
  {
    title: 'UnreadableConfig',
    additionalProperties: false,
    description:
      'Only if `config` is `null`: it was encrypted with a key that this server does not have, so the ' +
      'integration sends nothing. Save it again, or start the server with that key.',
    examples: [
      {
        code: 'config_unreadable',
        message:
          'The config was encrypted with the key 1f3a5c7e, which this server does not have: add it to ' +
          'SECRET_KEY, or save the integration again',
      },
    ],
  },
);

export const EmptyObject = Type.Object({}, { title: 'Empty', additionalProperties: false });

/** The config as responses have it: no member is missing from one that is completed. */
export function shownConfig<Schema extends TObject>({
  name,
  config,
  complete,
}: Integration<Schema>): TObject {
  const options = { additionalProperties: false, title: `${pascalCase(name)}IntegrationConfig` };
  return complete === undefined ? { ...config, ...options } : Type.Required<TObject>(config, options);
}

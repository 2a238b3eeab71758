import { type TObject, type TSchema, Type } from 'typebox';
import { Id, page } from './common.ts';

const id = Type.Optional(
  Type.Unsafe<string>({
    ...Id,
    description: 'Which one, where the project has several of this provider.',
  }),
);

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

/** An integration in lists, under the `name` that is part of its paths. */
export function integrationRecord(name: string, config: TObject) {
  return Type.Object({
    name: Type.Literal(name),
    id: Id,
    config: Type.Union([config, Unreadable]) as TSchema,
  });
}

/** A page of one provider's integrations with their configs. */
export function integrationPage(name: string, config: TObject) {
  return page(integrationRecord(name, config));
}

/** A page of integrations of all these providers. */
export function anyIntegrationPage(records: ReturnType<typeof integrationRecord>[]) {
  return page(Type.Union(records) as TSchema);
}

/** A config that was sealed with a key that this server has no more. */
const Unreadable = Type.Object(
  {},
  {
    additionalProperties: false,
    description: 'Empty: sealed with a key that this server does not have any more. Save it anew.',
  },
);

export const EmptyObject = Type.Object({}, { additionalProperties: false });

import { type TObject, type TSchema, Type } from 'typebox';
import { Id, page } from './common.ts';

/** Which of several integrations of one provider is meant. */
export const IntegrationQuery = Type.Object(
  {
    id: Type.Optional(
      Type.Unsafe<string>({
        ...Id,
        description: 'Which one, where the project has several of this provider.',
      }),
    ),
  },
  { additionalProperties: false },
);

/** A page of a provider's integrations with their configs. */
export function integrationPage<Config extends TObject>(name: string, config: Config) {
  return page(
    Type.Object({
      name: Type.Literal(name),
      id: Id,
      config: Type.Union([config, Unreadable]) as TSchema,
    }),
  );
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

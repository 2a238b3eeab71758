import { Type } from 'typebox';
import { nullable } from '../contract/common.ts';

/** Who an e-mail is from, or answered to, as the vendors' integrations have it. */
export function mailbox(description: string) {
  return Type.Object(
    {
      email: Type.String({ format: 'email', description: 'E-mail address' }),
      name: Type.Optional(nullable(Type.String({ description: 'Name shown beside the address' }))),
    },
    { additionalProperties: false, description },
  );
}

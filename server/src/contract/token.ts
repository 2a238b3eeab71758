import { type Static, Type } from 'typebox';
import { Id, nullable, storedString, Timestamp } from './common.ts';

/** The members that every stored token has beside its own. */
const record = {
  created_at: Timestamp,
  updated_at: nullable(Timestamp),
  discarded_at: nullable(Timestamp),
};

const inbox = {
  token: storedString({
    minLength: 64,
    maxLength: 4096,
    description: 'A random text of your making; whoever has it can open the realtime connection.',
    examples: ['q3ZtV9cKp1mXw7RbY5nJd0LhUf8TgE2sAvC6oIiNxMyDkPzQrWjBlGuHeFtSaO4R'],
  }),
};

export const SaveInboxToken = Type.Object(
  {
    ...inbox,
    connection_id: Type.Optional(
      nullable(
        storedString({ maxLength: 255, description: 'Restricts delivery to this one realtime connection.' }),
      ),
    ),
  },
  { additionalProperties: false },
);
export type SaveInboxToken = Static<typeof SaveInboxToken>;

/** What saving an inbox token answers. */
export const SavedInboxToken = Type.Object({ ...inbox, connection_id: nullable(Type.String()) });

export const InboxToken = Type.Object({ id: Id, ...SavedInboxToken.properties, ...record });

export const DiscardResult = Type.Object({ id: Type.String(), discarded_at: Timestamp });

import { Type } from 'typebox';
import { DiscardResult } from '../../contract/token.ts';
import { privateHostProblems, rejectPrivateHosts } from '../../domain/ground/requests/private-hosts.ts';
import { discardToken } from '../../domain/people/tokens/discard.ts';
import { recordId } from '../../domain/people/tokens/list.ts';
import { saveToken } from '../../domain/people/tokens/save.ts';
import { ClientError } from '../../errors.ts';
import { pascalCase } from '../../lib/pascal-case.ts';
import { integrations } from '../../providers/index.ts';
import type { Integration, TokenMembers } from '../../providers/provider.ts';
import { type Builder, nonNull } from './fields.ts';

/** Adds the tokens of a user: a pair of mutations for each integration that has tokens. */
export function tokenFields({ types, mutations }: Builder): void {
  const discarded = types.object(DiscardResult);
  for (const { name, tokens } of Object.values(integrations) as Integration[]) {
    if (tokens === undefined) continue;
    const { save, saved, hosts = [], collection } = tokens;

    mutations.ofUser(`save${pascalCase(name)}Token`, {
      type: nonNull(types.object(saved)),
      description: 'Saves a token of the user. A discarded token becomes active again under a new id.',
      args: Type.Object({ input: save }),
      alsoWrong: ({ context }, input) => privateHostProblems(context, hosts, input),
      async resolve({ context, user }, { input }) {
        await rejectPrivateHosts(context, hosts, input);
        return types.present(saved, await saveToken(context, tokens, user, input as TokenMembers));
      },
    });

    mutations.ofUser(`discard${pascalCase(name)}Token`, {
      type: nonNull(discarded),
      description: 'Discards a token for good: nothing is delivered to it from then on.',
      args: Type.Object({ id: Type.String({ maxLength: 511, format: 'text', description: 'Its id.' }) }),
      async resolve({ context, user }, { id: shownId }) {
        const id = await recordId(context.db, user.userId, collection, shownId);
        const done = id && (await discardToken(context, collection, { ...user, id }));
        if (!done) throw new ClientError('not_found');
        return types.present(DiscardResult, { id: done.id, discarded_at: done.at.toISOString() });
      },
    });
  }
}

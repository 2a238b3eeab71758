import { Type } from 'typebox';
import { SaveSubscription, Subscription } from '../../contract/topic.ts';
import { deleteSubscription } from '../../domain/people/topics/delete.ts';
import { countSubscriptions, listSubscriptions, subscriptionOf } from '../../domain/people/topics/list.ts';
import { repeatedCategories, saveSubscription } from '../../domain/people/topics/save.ts';
import { isId } from '../../lib/ids.ts';
import { readPage } from '../../lib/page.ts';
import { found } from '../found.ts';
import { connect, connectionType, pageArgs, readPageArgs } from './connections.ts';
import { type Builder, nonNull } from './fields.ts';

/** Adds the topics of a user. */
export function subscriptionFields({ types, queries, mutations }: Builder): void {
  const Shown = { ...Subscription, title: 'TopicSubscription' }; // Subscription is the root type
  const type = types.object(Shown);
  const present = (subscription: Subscription) => types.present(Shown, subscription);

  queries.ofUser('topics', {
    type: nonNull(connectionType(type)),
    description:
      'The topics that the user subscribed to or unsubscribed from, newest first, with the status of their ' +
      'categories.',
    args: Type.Object(pageArgs),
    async resolve({ context: { db }, user }, args) {
      const page = readPageArgs(args, isId);
      return connect({
        page: () => readPage(page, (cursor) => listSubscriptions(db, user.userId, cursor)),
        edge: (row) => ({ cursor: row.id, node: present(subscriptionOf(row)) }),
        count: () => countSubscriptions(db, user.userId),
      });
    },
  });

  mutations.ofUser('saveSubscription', {
    type: nonNull(type),
    description: 'Subscribes to a topic or unsubscribes from it. Changes only the categories in the input.',
    args: Type.Object({ input: SaveSubscription }),
    alsoWrong: (_scope, input) => repeatedCategories(input),
    resolve: async ({ context, user }, { input }) => present(await saveSubscription(context, user, input)),
  });

  mutations.ofUser('deleteSubscription', {
    type: nonNull(type),
    description: 'Removes a topic with all its categories. Returns the deleted subscription.',
    args: Type.Object({ topic: Type.String({ description: 'The name of the topic.' }) }),
    async resolve({ context, user }, { topic }) {
      return present(found(await deleteSubscription(context, user, topic)));
    },
  });
}

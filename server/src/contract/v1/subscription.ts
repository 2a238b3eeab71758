import { Type } from 'typebox';
import { CategoryChanges, SaveSubscription, Subscription } from '../topic.ts';

const { topic, categories } = Subscription.properties;

const LegacySubscription = Type.Object({ topic, categories }, { title: 'LegacySubscription' });

/** The subscription of a user to a topic. */
export const WrappedSubscription = Type.Object(
  { subscription: LegacySubscription },
  { title: 'WrappedSubscription' },
);

export const LegacySubscriptions = Type.Object(
  { subscriptions: Type.Array(LegacySubscription) },
  { title: 'LegacySubscriptions' },
);

const example = { categories: [{ slug: 'comments', reason: 'watch-repo' }] };

export const SaveLegacySubscription = Type.Object(
  { subscription: SaveSubscription },
  {
    title: 'LegacySubscriptionInput',
    additionalProperties: false,
    examples: [{ subscription: { topic: 'acme-inc.orders.1234', ...example } }],
  },
);

/** The categories to unsubscribe from, or to delete; all if there are none. */
export const LegacySubscriptionCategories = Type.Object(
  {
    subscription: Type.Object(
      { categories: Type.Optional(CategoryChanges) },
      { title: 'LegacyCategoriesInput', additionalProperties: false },
    ),
  },
  {
    title: 'LegacySubscriptionCategoriesInput',
    additionalProperties: false,
    examples: [{ subscription: example }],
  },
);

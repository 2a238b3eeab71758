import { GraphQLObjectType, GraphQLSchema, printSchema } from 'graphql';
import { broadcastFields } from './broadcasts.ts';
import { categoryFields } from './categories.ts';
import { ContractTypes } from './contract-types.ts';
import { type Builder, FieldMaker } from './fields.ts';
import { inboxSubscription } from './inbox-subscription.ts';
import { notificationFields } from './notifications.ts';
import { preferenceFields } from './preferences.ts';
import { subscriptionFields } from './subscriptions.ts';
import { tokenFields } from './tokens.ts';
import { userFields } from './users.ts';

/** The schema of `/graphql`, in the order in which it is published. */
export function graphqlSchema(): GraphQLSchema {
  const types = new ContractTypes();
  const builder: Builder = { types, queries: new FieldMaker(types), mutations: new FieldMaker(types) };
  notificationFields(builder);
  preferenceFields(builder);
  subscriptionFields(builder);
  tokenFields(builder);
  userFields(builder);
  categoryFields(builder);
  broadcastFields(builder);
  const { queries, mutations } = builder;
  return new GraphQLSchema({
    query: new GraphQLObjectType({ name: 'Query', fields: queries.fields }),
    mutation: new GraphQLObjectType({ name: 'Mutation', fields: mutations.fields }),
    subscription: new GraphQLObjectType({ name: 'Subscription', fields: inboxSubscription(types) }),
  });
}

/** The schema in its own language, as `schema.graphql` has it. */
export function schemaText(): string {
  return `${printSchema(graphqlSchema())}\n`;
}

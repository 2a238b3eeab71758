import type { Schema } from './document.ts';
import type { Operation } from './operations.ts';
import { commonWords, pascalCase, wordsOf } from './words.ts';

/** The types of queries, which have no names in the API description. */
export interface Queries {
  schemas: Record<string, Schema>;
  nameOf(operation: Operation): string;
}

/** Names each query after its operation. Equal queries share the words that their operations share. */
export function nameQueries(operations: readonly Operation[]): Queries {
  const withQuery = operations.filter(({ query }) => query !== undefined);
  const formOf = ({ query }: Operation) => JSON.stringify(query);
  const names = new Map<string, string>();
  const schemas: Record<string, Schema> = {};
  for (const [form, same] of Map.groupBy(withQuery, formOf)) {
    const common = commonWords(same.map(({ id }) => wordsOf(id)));
    const candidates = [common, ...same.map(({ id }) => wordsOf(id))].map((words) => pascalCase(words));
    const name = candidates.find((one) => one !== '' && !(`${one}Query` in schemas));
    if (name === undefined) throw new Error(`no name is left for the query of ${same[0]?.id}`);
    names.set(form, `${name}Query`);
    schemas[`${name}Query`] = JSON.parse(form) as Schema;
  }
  return { schemas, nameOf: (operation) => names.get(formOf(operation)) ?? '' };
}

import type { ApiDocument } from './document.ts';
import { operationsOf } from './operations.ts';
import { printClient } from './print-client.ts';
import { nameQueries } from './queries.ts';
import { printTypes } from './types.ts';

/** The generated files of the SDK by their paths in the repository. */
export async function sdkFiles(document: ApiDocument): Promise<Record<string, string>> {
  const operations = operationsOf(document);
  const queries = nameQueries(operations);
  return {
    'sdk/src/generated/types.ts': await printTypes(document, queries.schemas),
    'sdk/src/generated/project-client.ts': printClient('project', { document, operations, queries }),
    'sdk/src/generated/user-client.ts': printClient('user', { document, operations, queries }),
  };
}

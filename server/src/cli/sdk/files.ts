import type { ApiDocument } from './document.ts';
import { nameTypes } from './name-types.ts';
import { operationsOf } from './operations.ts';
import { printClient, printTypes } from './print-client.ts';

/** The files of the SDK that are made from the API's description, by their paths in the repository. */
export function sdkFiles(document: ApiDocument): Record<string, string> {
  const operations = operationsOf(document);
  const types = nameTypes(document, operations);
  return {
    'sdk/src/generated/types.ts': printTypes(types),
    'sdk/src/generated/project-client.ts': printClient('project', document, types, operations),
    'sdk/src/generated/user-client.ts': printClient('user', document, types, operations),
  };
}

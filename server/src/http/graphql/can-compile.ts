import {
  type ASTNode,
  type DirectiveNode,
  type DocumentNode,
  Kind,
  type OperationDefinitionNode,
  visit,
} from 'graphql';

/**
 * Whether graphql-jit runs an operation as the specification says. It loses variables in literals of JSON,
 * turns a variable that a request leaves out of an input object into null, and merges selections wrongly if
 * conditions are nested. It reads a condition of null as false.
 */
export function canCompile(document: DocumentNode, operation: OperationDefinitionNode): boolean {
  const nullable = new Set(
    (operation.variableDefinitions ?? [])
      .filter(({ type }) => type.kind !== Kind.NON_NULL_TYPE)
      .map(({ variable }) => variable.name.value),
  );
  let isSafe = true;
  const check = (isUnsafe: boolean) => {
    if (isUnsafe) isSafe = false;
  };
  visit(document, {
    ObjectValue: (node) => check(usesVariable(node, () => true)),
    FragmentSpread: ({ directives }) => check(conditions(directives).length > 0),
    InlineFragment: ({ directives }) => check(conditions(directives).length > 0),
    Field({ directives, selectionSet }) {
      for (const condition of conditions(directives))
        check(selectionSet !== undefined || usesVariable(condition, (name) => nullable.has(name)));
    },
  });
  return isSafe;
}

function conditions(directives: readonly DirectiveNode[] = []): DirectiveNode[] {
  return directives.filter(({ name }) => name.value === 'skip' || name.value === 'include');
}

function usesVariable(node: ASTNode, isMeant: (name: string) => boolean): boolean {
  let found = false;
  visit(node, {
    Variable({ name }) {
      if (isMeant(name.value)) found = true;
    },
  });
  return found;
}

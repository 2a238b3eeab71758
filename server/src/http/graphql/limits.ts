import {
  type DefinitionNode,
  type DocumentNode,
  type FieldNode,
  type FragmentDefinitionNode,
  type GraphQLSchema,
  isObjectType,
  Kind,
  type OperationDefinitionNode,
  type SelectionSetNode,
  type ValueNode,
} from 'graphql';
import { DEFAULT_ON_PAGE, MAX_ON_PAGE } from './connections.ts';

/** The longest query, and the most tokens in it. The introspection of GraphiQL has 400. */
export const MAX_QUERY_CHARACTERS = 32 * 1024;
export const MAX_TOKENS = 1_500;
/** Introspection nests lists of types twelve levels deep. */
const MAX_DEPTH = 16;
const MAX_ALIASES = 30;
/** Values that a response can have: a page of 100 notifications with all their fields has 2,000. */
const MAX_VALUES = 10_000;
// Beyond the first page, deliveries are read for each broadcast alone.
const VALUES_OF_SEARCH = 2_000;

/** The names of the fields that return a page, by the schema. */
export function pagedFields(schema: GraphQLSchema): ReadonlySet<string> {
  const names = Object.values(schema.getTypeMap()).flatMap((type) =>
    isObjectType(type)
      ? Object.values(type.getFields()).filter(({ args }) => args.some(({ name }) => name === 'first'))
      : [],
  );
  return new Set(names.map(({ name }) => name));
}

/** Measures an operation. It may be invalid in any way, because this runs before the validation. */
export function sizeOf(
  document: DocumentNode,
  operation: OperationDefinitionNode,
  variables: Readonly<Record<string, unknown>>,
  paged: ReadonlySet<string>,
): Size {
  return new Measure(document, variables, paged).ofOperation(operation);
}

/** Returns problems of an operation that is nested too deeply, has too many aliases or too many values. */
export function limitProblems({ depth, aliases, values }: Size): string[] {
  const problems: string[] = [];
  if (depth > MAX_DEPTH) problems.push(`The query is nested too deeply: at most ${MAX_DEPTH} levels`);
  if (aliases > MAX_ALIASES) problems.push(`The query has too many aliases: at most ${MAX_ALIASES}`);
  if (values > MAX_VALUES) {
    const count = Math.min(values, Number.MAX_SAFE_INTEGER).toLocaleString('en');
    const most = MAX_VALUES.toLocaleString('en');
    problems.push(
      `The query can return ${count} values, and at most ${most} are allowed: select fewer fields, or ` +
        "smaller pages with 'first'",
    );
  }
  return problems;
}

/** Counts the fields that a mutation runs: those of its fragments too, and once those with the same name. */
export function countWrites(
  { definitions }: DocumentNode,
  { selectionSet }: OperationDefinitionNode,
): number {
  const fragments = fragmentsOf(definitions);
  const names = new Set<string>();
  const pending = [selectionSet];
  for (const { selections } of pending) {
    for (const selection of selections) {
      if (selection.kind === Kind.FIELD) names.add((selection.alias ?? selection.name).value);
      else if (selection.kind === Kind.INLINE_FRAGMENT) pending.push(selection.selectionSet);
      else {
        const fragment = fragments.get(selection.name.value);
        if (fragment !== undefined) pending.push(fragment.selectionSet);
        fragments.delete(selection.name.value); // visited
      }
    }
  }
  return names.size;
}

interface Size {
  depth: number;
  aliases: number;
  /** The fields, each fragment counted where it is used. */
  fields: number;
  /** The values that a response can have. */
  values: number;
}

const NOTHING: Size = { depth: 0, aliases: 0, fields: 0, values: 0 };

/** Measures each fragment once, because fragments that contain others twice double with each level. */
class Measure {
  readonly #fragments: ReadonlyMap<string, FragmentDefinitionNode>;
  readonly #variables: Readonly<Record<string, unknown>>;
  readonly #paged: ReadonlySet<string>;
  readonly #measured = new Map<string, Size>();
  #defaults: Readonly<Record<string, unknown>> = {};

  constructor(
    { definitions }: DocumentNode,
    variables: Readonly<Record<string, unknown>>,
    paged: ReadonlySet<string>,
  ) {
    this.#fragments = fragmentsOf(definitions);
    this.#variables = variables;
    this.#paged = paged;
  }

  ofOperation({ selectionSet, variableDefinitions = [] }: OperationDefinitionNode): Size {
    this.#defaults = Object.fromEntries(
      variableDefinitions.map(({ variable, defaultValue }) => [
        variable.name.value,
        defaultValue?.kind === Kind.INT ? Number(defaultValue.value) : undefined,
      ]),
    );
    return this.#ofSelections(selectionSet);
  }

  #ofSelections({ selections }: SelectionSetNode): Size {
    const total = { ...NOTHING };
    for (const selection of selections) {
      const size =
        selection.kind === Kind.FIELD
          ? this.#ofField(selection)
          : selection.kind === Kind.INLINE_FRAGMENT
            ? this.#ofSelections(selection.selectionSet)
            : this.#ofFragment(selection.name.value);
      total.depth = Math.max(total.depth, size.depth);
      total.aliases += size.aliases;
      total.fields += size.fields;
      total.values += size.values;
    }
    return total;
  }

  #ofField({ alias, name, arguments: args = [], selectionSet }: FieldNode): Size {
    const inner = selectionSet === undefined ? NOTHING : this.#ofSelections(selectionSet);
    const isPaged = this.#paged.has(name.value);
    const given = new Set(args.map((argument) => argument.name.value));
    const isSearch =
      isPaged &&
      SEARCHES.get(name.value)?.some((argument) => given.has(argument)) === true &&
      !isCount(selectionSet);
    return {
      depth: inner.depth + 1,
      aliases: inner.aliases + (alias === undefined ? 0 : 1),
      fields: inner.fields + 1,
      values:
        1 +
        (isSearch ? VALUES_OF_SEARCH : 0) +
        inner.values * (isPaged ? this.#pageSize(args) : (COUNTED.get(name.value) ?? 1)),
    };
  }

  #ofFragment(name: string): Size {
    const known = this.#measured.get(name);
    if (known !== undefined) return known;
    const fragment = this.#fragments.get(name);
    if (fragment === undefined) return NOTHING;
    this.#measured.set(name, NOTHING); // of a fragment that contains itself, which validation rejects
    const size = this.#ofSelections(fragment.selectionSet);
    this.#measured.set(name, size);
    return size;
  }

  /** The size of a page; the largest if it cannot be known, because validation will reject it. */
  #pageSize(args: NonNullable<FieldNode['arguments']>): number {
    for (const { name, value } of args) {
      if (name.value !== 'first' && name.value !== 'last') continue;
      const given = this.#numberOf(value);
      if (given !== null) return Math.max(1, given ?? MAX_ON_PAGE);
    }
    return DEFAULT_ON_PAGE;
  }

  /** The number that an argument has; null if it is not given, and undefined if it is no number. */
  #numberOf(value: ValueNode): number | null | undefined {
    if (value.kind === Kind.INT) return Number(value.value);
    if (value.kind === Kind.NULL) return null;
    if (value.kind !== Kind.VARIABLE) return undefined;
    const own = this.#variables[value.name.value];
    const given = own === undefined ? (this.#defaults[value.name.value] ?? null) : own; // null has no default
    return given === null || typeof given === 'number' ? given : undefined;
  }
}

/** Whether only the count of a list is selected. */
function isCount(selectionSet: SelectionSetNode | undefined): boolean {
  return (
    selectionSet?.selections.every(
      (selection) => selection.kind === Kind.FIELD && selection.name.value === 'totalCount',
    ) === true
  );
}

function fragmentsOf(definitions: readonly DefinitionNode[]): Map<string, FragmentDefinitionNode> {
  return new Map(
    definitions.flatMap((one) =>
      one.kind === Kind.FRAGMENT_DEFINITION ? [[one.name.value, one] as const] : [],
    ),
  );
}

/**
 * What lists that are no pages count. Most have less than they may have: a broadcast few of 1000 recipients,
 * and a page of broadcasts ends early if it is long. The query of GraphiQL for introspection is within the
 * limit, and larger ones are not.
 */
const COUNTED: ReadonlyMap<string, number> = new Map([
  ['recipients', 100],
  ['errors', 100],
  ['types', 15],
  ['fields', 4],
  ['inputFields', 2],
  ['args', 2],
]);

/** The arguments with which a page is read for each parent alone. */
const SEARCHES: ReadonlyMap<string, readonly string[]> = new Map([
  ['deliveries', ['after', 'before', 'last', 'state']],
]);

import {
  type DocumentNode,
  type ExecutionArgs,
  type ExecutionResult,
  execute,
  GraphQLError,
  type GraphQLSchema,
  getOperationAST,
  getVariableValues,
  type OperationDefinitionNode,
  parse,
  validate,
  valueFromASTUntyped,
} from 'graphql';
import { type CompiledQuery, compileQuery, isCompiledQuery } from 'graphql-jit';
import { LRUCache } from 'lru-cache';
import { canCompile } from './can-compile.ts';
import { limitProblems, MAX_QUERY_CHARACTERS, MAX_TOKENS, pagedFields, sizeOf } from './limits.ts';

// Programs repeat a few queries. A parsed one takes up to a hundred times its text.
const MAX_CACHED_CHARACTERS = 256 * 1024;
// Running a compiled query takes a tenth of the time, but compiling takes 0.1 ms for each field. Queries that
// are large or sent once are not compiled.
const COMPILED_AFTER = 3;
const MAX_COMPILED_FIELDS = 150;

/** The queries of clients. Parses, validates and compiles each of them once. */
export class Documents {
  readonly schema: GraphQLSchema;
  readonly #paged: ReadonlySet<string>;
  readonly #parsed = new LRUCache<string, DocumentNode>({
    maxSize: MAX_CACHED_CHARACTERS,
    sizeCalculation: (_document, query) => query.length + 1,
  });
  readonly #problems = new WeakMap<DocumentNode, readonly GraphQLError[]>();
  readonly #isLarge = new WeakMap<DocumentNode, boolean>();
  readonly #programs = new WeakMap<DocumentNode, Map<string, Program>>();

  constructor(schema: GraphQLSchema) {
    this.schema = schema;
    this.#paged = pagedFields(schema);
  }

  /** Parses a query. Throws a `GraphQLError` for its syntax, or if it is too long. */
  parse(query: string): DocumentNode {
    const known = this.#parsed.get(query);
    if (known !== undefined) return known;
    if (query.length > MAX_QUERY_CHARACTERS) {
      const most = MAX_QUERY_CHARACTERS.toLocaleString('en');
      throw new GraphQLError(`The query is too long: at most ${most} characters`);
    }
    const document = parse(query, { maxTokens: MAX_TOKENS });
    this.#parsed.set(query, document);
    return document;
  }

  /** Returns what is wrong with an operation by the limits, or else by the schema. */
  validate(
    document: DocumentNode,
    operation: OperationDefinitionNode | undefined,
    variables: Readonly<Record<string, unknown>>,
  ): readonly GraphQLError[] {
    if (operation !== undefined) {
      const size = sizeOf(document, operation, variables, this.#paged);
      const beyond = limitProblems(size);
      if (beyond.length > 0) return beyond.map((problem) => new GraphQLError(problem));
      this.#isLarge.set(document, size.fields > MAX_COMPILED_FIELDS);
    }
    const known = this.#problems.get(document);
    if (known !== undefined) return known;
    const problems = validate(this.schema, document, undefined, { maxErrors: MAX_PROBLEMS });
    this.#problems.set(document, problems);
    return problems;
  }

  /** Runs an operation, compiled if it was run some times before. */
  run(args: ExecutionArgs): ExecutionResult | Promise<ExecutionResult> {
    const { document, operationName } = args;
    const programs = this.#programs.get(document) ?? new Map<string, Program>();
    this.#programs.set(document, programs);
    const program = programs.get(operationName ?? '') ?? { runs: 0, compiled: undefined };
    programs.set(operationName ?? '', program);
    program.runs += 1;
    if (program.runs === COMPILED_AFTER && this.#isLarge.get(document) === false)
      program.compiled = this.#compile(document, operationName);
    const { compiled } = program;
    if (compiled === undefined) return execute(args) as ExecutionResult | Promise<ExecutionResult>;
    return this.#runCompiled(compiled, args);
  }

  // graphql-jit has other messages for wrong variables, accepts an array as an object, and misses defaults of
  // required variables.
  #runCompiled(
    { query, operation, defaults }: Compiled,
    { variableValues, contextValue }: ExecutionArgs,
  ): ExecutionResult | Promise<ExecutionResult> {
    const given = variableValues ?? {};
    const options = { maxErrors: MAX_VARIABLE_ERRORS };
    const { errors } = getVariableValues(this.schema, operation.variableDefinitions ?? [], given, options);
    if (errors !== undefined) return { errors };
    return query(undefined, contextValue, { ...defaults, ...given });
  }

  #compile(document: DocumentNode, operationName: string | null | undefined): Compiled | undefined {
    const operation = getOperationAST(document, operationName);
    if (!operation || !canCompile(document, operation)) return undefined;
    const compiled = compileQuery(this.schema, document, operationName ?? undefined);
    if (!isCompiledQuery(compiled)) return undefined;
    return { query: compiled.query, operation, defaults: defaultsOf(operation) };
  }
}

const MAX_PROBLEMS = 20;
/** As many as `execute` reports. */
const MAX_VARIABLE_ERRORS = 50;

interface Program {
  runs: number;
  compiled: Compiled | undefined;
}

interface Compiled {
  query: CompiledQuery['query'];
  operation: OperationDefinitionNode;
  /** The values of variables that a request may leave out, as a client would send them. */
  defaults: Readonly<Record<string, unknown>>;
}

function defaultsOf({ variableDefinitions = [] }: OperationDefinitionNode): Record<string, unknown> {
  return Object.fromEntries(
    variableDefinitions.flatMap(({ variable, defaultValue }) =>
      defaultValue === undefined ? [] : [[variable.name.value, valueFromASTUntyped(defaultValue)]],
    ),
  );
}

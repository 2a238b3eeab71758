import { type GraphQLFieldConfig, GraphQLNonNull, type GraphQLOutputType } from 'graphql';
import { type Static, type TObject, Type } from 'typebox';
import { MAX_MESSAGES } from '../../contract/problems.ts';
import { textProblems } from '../../contract/text-problems.ts';
import { problemsIn } from '../../contract/validation.ts';
import type { Project } from '../../domain/setup/projects/cache.ts';
import { ClientError } from '../../errors.ts';
import { memberOf } from '../../lib/members.ts';
import type { Caller } from '../auth.ts';
import { type ContractTypes, toContract } from './contract-types.ts';
import { camelCase } from './names.ts';
import type { Scope } from './scope.ts';

/** Where the parts of the schema are added. */
export interface Builder {
  readonly types: ContractTypes;
  readonly queries: FieldMaker;
  readonly mutations: FieldMaker;
}

/** A field of Query, Mutation or Subscription. */
export interface RootField<Args extends TObject, Who> {
  type: GraphQLOutputType;
  /** In full sentences. The credential is added. */
  description: string;
  /** The arguments, as the contract names them. */
  args?: Args;
  /** Problems of the member `input` that no schema expresses. The input need not match the schema. */
  alsoWrong?: (scope: Scope & Who, input: unknown) => readonly string[] | Promise<readonly string[]>;
  resolve: (scope: Scope & Who, args: Static<Args>) => unknown;
}

export interface OfProject {
  project: Project;
}
export interface OfUser extends OfProject {
  user: { projectId: string; userId: string };
}

type RootFields = Record<string, GraphQLFieldConfig<unknown, Scope>>;

/** Makes fields that are resolved for a caller of their kind only. */
export class FieldMaker {
  readonly #types: ContractTypes;
  readonly fields: RootFields = {};

  constructor(types: ContractTypes) {
    this.#types = types;
  }

  /** A field that needs the rights of the project. */
  ofProject<Args extends TObject>(name: string, field: RootField<Args, OfProject>): void {
    this.#add(name, field, 'Needs the rights of the project.', (scope) => {
      const { caller } = scope;
      if (!hasProjectRights(caller)) throw wrongCaller(scope, 'project');
      return { ...scope, project: caller.project };
    });
  }

  /** A field of the user who makes the request. */
  ofUser<Args extends TObject>(name: string, field: RootField<Args, OfUser>): void {
    this.#add(name, field, 'Needs the rights of a user.', (scope) => {
      const { caller } = scope;
      if (caller.kind !== 'user') throw wrongCaller(scope, 'user');
      const { project, userId } = caller;
      return { ...scope, project, user: { projectId: project.id, userId } };
    });
  }

  /** A field for both. */
  ofAnyone<Args extends TObject>(name: string, field: RootField<Args, unknown>): void {
    this.#add(name, field, 'Needs any credential.', (scope) => scope);
  }

  #add<Args extends TObject, Who>(
    name: string,
    { type, description, args: schema, alsoWrong, resolve }: RootField<Args, Who>,
    needs: string,
    admit: (scope: Scope) => Scope & Who,
  ): void {
    const read = argumentChecker(schema ?? Type.Object({}));
    const hasInput = 'input' in (schema?.properties ?? {});
    this.fields[name] = {
      type,
      description: `${description} ${needs}`,
      args: this.#types.arguments(name, schema ?? Type.Object({})),
      async resolve(_source, given, scope) {
        const admitted = admit(scope);
        const { args, problems } = read(given);
        if (problems.length > 0) {
          const more = (await alsoWrong?.(admitted, memberOf(args, 'input'))) ?? [];
          throw invalid([...problems, ...more.slice(0, MAX_MESSAGES).map(inInput)]);
        }
        try {
          const result = await resolve(admitted, args as Static<Args>);
          scope.onRun();
          return result;
        } catch (error) {
          if (!isRefusal(error)) scope.onRun();
          throw hasInput ? ofInput(error) : error;
        }
      },
    };
  }
}

/** Reads the arguments of a field as the contract names them. Throws `validation_failed` for wrong ones. */
export function argumentReader<Args extends TObject>(schema: Args): (given: unknown) => Static<Args> {
  const read = argumentChecker(schema);
  return (given) => {
    const { args, problems } = read(given);
    if (problems.length > 0) throw invalid(problems);
    return args as Static<Args>;
  };
}

function argumentChecker(schema: TObject): (given: unknown) => { args: unknown; problems: string[] } {
  const check = problemsIn(schema);
  return (given) => {
    const args = toContract(schema, given);
    return { args, problems: [...textProblems(undefined, args), ...check(args)] };
  };
}

/** The error for wrong arguments, with all their problems. */
function invalid(problems: readonly string[]): ClientError {
  return new ClientError('validation_failed', [...new Set(problems)].map(withGraphqlNames));
}

/** Whether an error says that a request is not valid: nothing was done, and it may be corrected. */
function isRefusal(error: unknown): error is ClientError {
  return error instanceof ClientError && error.code === 'validation_failed';
}

/** Returns an error of the domain, which names the members of the input, in the terms of GraphQL. */
function ofInput(error: unknown): unknown {
  if (!isRefusal(error)) return error;
  return invalid(error.problems.map(({ message }) => inInput(message)));
}

/** Names the parameter of a problem as a member of the input. */
function inInput(problem: string): string {
  return problem.replace(/^Param '/, "Param 'input.");
}

/** Names the parameter of a problem as GraphQL does: `Param 'input.firstName' is missing`. */
function withGraphqlNames(problem: string): string {
  return problem.replace(/^Param '[^']*'/, camelCase);
}

/** Whether the credential has the rights of the project, also if a backend acts for a user with it. */
export function hasProjectRights(caller: Caller): boolean {
  return caller.kind === 'project' || caller.hasProjectRights === true;
}

function wrongCaller({ caller, credentialNames }: Scope, wanted: Caller['kind']): ClientError {
  return new ClientError('forbidden', [
    `This field needs ${credentialNames[wanted]}; the request has ${credentialNames[caller.kind]}`,
  ]);
}

/** A type that is never null. */
export function nonNull<Type extends GraphQLOutputType>(type: Type): GraphQLNonNull<Type> {
  return new GraphQLNonNull(type) as GraphQLNonNull<Type>;
}

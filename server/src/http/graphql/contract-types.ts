import {
  GraphQLBoolean,
  GraphQLEnumType,
  type GraphQLFieldConfig,
  type GraphQLFieldConfigArgumentMap,
  GraphQLFloat,
  GraphQLID,
  GraphQLInputObjectType,
  type GraphQLInputType,
  GraphQLInt,
  GraphQLList,
  GraphQLNonNull,
  GraphQLObjectType,
  type GraphQLOutputType,
  GraphQLScalarType,
  GraphQLString,
  Kind,
  type ValueNode,
  valueFromASTUntyped,
} from 'graphql';
import type { TSchema } from 'typebox';
import { rememberNumber, withExactNumbers } from '../../lib/exact-numbers.ts';
import { pascalCase } from '../../lib/pascal-case.ts';
import { camelCase } from './names.ts';
import type { Scope } from './scope.ts';

/** A schema of the contract, as far as types are made from it. */
interface Shape {
  type?: string | readonly string[];
  title?: string;
  description?: string;
  format?: string;
  enum?: readonly (string | null)[];
  items?: Shape;
  properties?: Record<string, Shape>;
  required?: readonly string[];
  anyOf?: readonly Shape[];
  readOnly?: boolean;
}

type Fields = Record<string, GraphQLFieldConfig<unknown, Scope>>;

const DateTime = new GraphQLScalarType({
  name: 'DateTime',
  description: 'A point in time, as ISO 8601 in UTC with milliseconds.',
  specifiedByURL: 'https://www.rfc-editor.org/rfc/rfc3339',
});
const Json = new GraphQLScalarType({
  name: 'JSON',
  description: 'Any JSON value. Its members keep their names.',
  serialize: withExactNumbers,
  parseValue: (value) => value,
  parseLiteral: literalValue,
});

/** The value of a literal, which remembers its numbers as they were written. */
function literalValue(node: ValueNode, variables?: Parameters<typeof valueFromASTUntyped>[1]): unknown {
  const value = valueFromASTUntyped(node, variables);
  rememberNumbers(node, value);
  return value;
}

function rememberNumbers(node: ValueNode, value: unknown): void {
  if (typeof value !== 'object' || value === null) return;
  const members: [string, ValueNode][] =
    node.kind === Kind.OBJECT
      ? node.fields.map((field) => [field.name.value, field.value])
      : node.kind === Kind.LIST
        ? node.values.map((one, index) => [String(index), one])
        : [];
  for (const [name, below] of members) {
    const member = (value as Record<string, unknown>)[name];
    if (typeof member === 'number' && 'value' in below)
      rememberNumber(value, name, member, String(below.value));
    else rememberNumbers(below, member);
  }
}

/**
 * Makes GraphQL types from the shapes of the contract, one for each title. Names become camelCase, and the
 * values of enums upper case.
 */
export class ContractTypes {
  readonly #outputs = new Map<string, GraphQLObjectType>();
  readonly #inputs = new Map<string, GraphQLInputObjectType>();
  readonly #enums = new Map<string, GraphQLEnumType>();
  readonly #more = new Map<string, () => Fields>();
  readonly #views = new Map<string, View>();

  /** Adds fields to the object type of this title. */
  extend(title: string, fields: () => Fields): void {
    this.#more.set(title, fields);
  }

  /** The object type of a schema with a title. */
  object(schema: TSchema): GraphQLObjectType {
    return this.#object(schema as Shape, '');
  }

  /** The arguments of a field: the members of an object. */
  arguments(name: string, schema: TSchema): GraphQLFieldConfigArgumentMap {
    return this.#members(schema as Shape, pascalCase(`_${name}`));
  }

  /** A value of the contract with the names of GraphQL. Members are converted when they are read. */
  present(schema: TSchema, value: unknown): object {
    return this.#viewOf(schema as Shape)(value) as object;
  }

  #object(schema: Shape, name: string): GraphQLObjectType {
    const { title = name, description } = merged(schema);
    const known = this.#outputs.get(title);
    if (known !== undefined) return known;
    const type = new GraphQLObjectType({
      name: title,
      description,
      fields: () => ({ ...this.#fieldsOf(title, schema), ...this.#more.get(title)?.() }),
    });
    this.#outputs.set(title, type);
    return type;
  }

  #fieldsOf(title: string, schema: Shape): Fields {
    const { properties = {}, required = [] } = merged(schema);
    return Object.fromEntries(
      Object.entries(properties).map(([name, one]) => {
        const type = this.#output(one, title + pascalCase(`_${name}`));
        const isSet = required.includes(name) && !isNullable(one);
        const { description } = plain(one);
        return [camelCase(name), { type: isSet ? new GraphQLNonNull(type) : type, description }];
      }),
    );
  }

  #output(nullable: Shape, name: string): GraphQLOutputType {
    const schema = plain(nullable);
    const kind = kindOf(schema);
    if (kind === 'object') return this.#object(schema, name);
    if (kind !== 'array') return this.#leaf(schema, kind, name);
    return new GraphQLList(new GraphQLNonNull(this.#output(schema.items ?? {}, name)));
  }

  #input(nullable: Shape, name: string): GraphQLInputType {
    const schema = plain(nullable);
    const kind = kindOf(schema);
    if (kind === 'array') return new GraphQLList(new GraphQLNonNull(this.#input(schema.items ?? {}, name)));
    if (kind !== 'object') return this.#leaf(schema, kind, name);
    const { title = name, description } = merged(schema);
    const inputTitle = title.endsWith('Input') ? title : `${title}Input`;
    const known = this.#inputs.get(inputTitle);
    if (known !== undefined) return known;
    const fields = () => this.#members(schema, inputTitle);
    const type = new GraphQLInputObjectType({ name: inputTitle, description, fields });
    this.#inputs.set(inputTitle, type);
    return type;
  }

  #members(schema: Shape, name: string): GraphQLFieldConfigArgumentMap {
    const { properties = {}, required = [] } = merged(schema);
    const written = Object.entries(properties).filter(([, one]) => one.readOnly !== true);
    return Object.fromEntries(
      written.map(([key, one]) => {
        const type = this.#input(one, name + pascalCase(`_${key}`));
        const isNeeded = required.includes(key) && !isNullable(one);
        const { description } = plain(one);
        return [camelCase(key), { type: isNeeded ? new GraphQLNonNull(type) : type, description }];
      }),
    );
  }

  #leaf(schema: Shape, kind: LeafKind, name: string) {
    if (kind !== 'enum') return LEAVES[kind];
    const title = schema.title ?? name;
    const known = this.#enums.get(title);
    if (known !== undefined) return known;
    const words = (schema.enum ?? []).filter((word) => word !== null);
    const values = Object.fromEntries(words.map((word) => [word.toUpperCase(), { value: word }]));
    const type = new GraphQLEnumType({ name: title, description: schema.description, values });
    this.#enums.set(title, type);
    return type;
  }

  #viewOf(nullable: Shape): View {
    const schema = plain(nullable);
    const kind = kindOf(schema);
    if (kind === 'array') {
      const view = this.#viewOf(schema.items ?? {});
      return (value) => (Array.isArray(value) ? value.map(view) : value);
    }
    if (kind !== 'object') return (value) => value;
    const { title, properties = {} } = merged(schema);
    const known = title === undefined ? undefined : this.#views.get(title);
    if (known !== undefined) return known;
    const view = viewClass(
      Object.entries(properties).map(([name, one]) => [name, camelCase(name), this.#viewOf(one)]),
    );
    if (title !== undefined) this.#views.set(title, view);
    return view;
  }
}

type LeafKind = 'enum' | 'id' | 'time' | 'string' | 'integer' | 'number' | 'boolean' | 'json';

const LEAVES: Record<Exclude<LeafKind, 'enum'>, GraphQLScalarType> = {
  id: GraphQLID,
  time: DateTime,
  string: GraphQLString,
  integer: GraphQLInt,
  number: GraphQLFloat,
  boolean: GraphQLBoolean,
  json: Json,
};

function kindOf(schema: Shape): LeafKind | 'object' | 'array' {
  if (schema.enum !== undefined) return 'enum';
  if (merged(schema).properties !== undefined) return 'object';
  switch (schema.type) {
    case 'string':
      return schema.format === 'uuid' ? 'id' : schema.format === 'date-time' ? 'time' : 'string';
    case 'integer':
    case 'number':
    case 'boolean':
    case 'array':
      return schema.type;
    default:
      return 'json';
  }
}

/** Makes a value with the names of GraphQL. */
type View = (value: unknown) => unknown;

/** A class with a getter for each member, because a query reads few of them. */
function viewClass(members: readonly (readonly [name: string, shown: string, view: View])[]): View {
  class Shown {
    readonly source: Record<string, unknown>;
    constructor(source: Record<string, unknown>) {
      this.source = source;
    }
  }
  for (const [name, shown, view] of members) {
    Object.defineProperty(Shown.prototype, shown, {
      get(this: Shown) {
        return view(this.source[name]);
      },
    });
  }
  return (value) =>
    typeof value === 'object' && value !== null ? new Shown(value as Record<string, unknown>) : value;
}

/** Returns the arguments of a field as the contract names them, without those that are not given. */
export function toContract(schema: TSchema, value: unknown): unknown {
  return named(schema as Shape, value);
}

function named(nullable: Shape, value: unknown): unknown {
  const schema = plain(nullable);
  if (Array.isArray(value)) return value.map((item) => named(schema.items ?? {}, item));
  const { properties } = merged(schema);
  if (properties === undefined || typeof value !== 'object' || value === null) return value;
  const given = value as Record<string, unknown>;
  const members: Record<string, unknown> = {};
  for (const [name, one] of Object.entries(properties)) {
    const member = given[camelCase(name)];
    // GraphQL allows null for everything optional.
    if (member !== undefined && (member !== null || isNullable(one))) members[name] = named(one, member);
  }
  return members;
}

/** The schema of the value if it is not null. */
function plain(schema: Shape): Shape {
  const { type, anyOf, ...rest } = schema;
  if (anyOf?.some((one) => one.type === 'null')) {
    const others = anyOf.filter((one) => one.type !== 'null');
    return others.length === 1 ? { ...others[0], ...rest } : { ...rest, anyOf: others };
  }
  if (typeof type !== 'object') return schema;
  const types = type.filter((one) => one !== 'null');
  return { ...schema, type: types.length === 1 ? (types[0] ?? []) : types };
}

function isNullable({ type, anyOf }: Shape): boolean {
  return (
    (typeof type === 'object' && type.includes('null')) || anyOf?.some((one) => one.type === 'null') === true
  );
}

/** GraphQL has no unions of inputs: one object with the optional members of all of them. */
function merged(schema: Shape): Shape {
  const { properties, anyOf, ...rest } = schema;
  if (properties !== undefined || anyOf === undefined) return schema;
  const all = anyOf.map((one) => one.properties);
  if (all.some((one) => one === undefined)) return schema;
  return { ...rest, properties: Object.assign({}, ...all), required: [] };
}

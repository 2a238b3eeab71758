import { parse } from 'libpg-query';
import { type Migration, statementsOf } from '../../src/db/migrations.ts';

type Node = { [member: string]: unknown };

/** What the statements of a migration have done so far. */
interface Progress {
  migration: Migration;
  /** The tables that it has created, which are empty. */
  created: Set<string>;
  /** The check constraints that it has added as not valid, with the columns that they require. */
  checks: Map<string, string[]>;
  /** The columns that a validated check requires, as `table.column`. */
  required: Set<string>;
}

/**
 * What makes a migration unsafe while servers run that know the schema `released`. A statement with the
 * comment `-- safe because …` may do anything. Needs the parser to be loaded.
 */
export async function unsafeParts(migration: Migration, released: number): Promise<string[]> {
  const progress: Progress = { migration, created: new Set(), checks: new Map(), required: new Set() };
  const found: string[] = [];
  if (migration.oldestProgram > released && !/^-- needs newer programs because \w/m.test(migration.text))
    found.push(`needs programs that know schema ${migration.oldestProgram}; the last release: ${released}`);
  const statements = statementsOf(migration);
  const whole = (await parse(migration.text)) as { stmts: unknown[] };
  if (statements.length !== whole.stmts.length) found.push('a statement does not end with its line');
  for (const text of statements) {
    const { stmts } = (await parse(text)) as { stmts: { stmt: Node }[] };
    const unsafe = stmts
      .flatMap(({ stmt }) => Object.entries(stmt))
      .flatMap(([kind, statement]) => unsafeStatement(kind, statement as Node, progress));
    if (!/^-- safe because \w/m.test(text)) found.push(...unsafe);
  }
  return found;
}

function unsafeStatement(kind: string, statement: Node, progress: Progress): string[] {
  const repeatable = progress.migration.transaction || statement.if_not_exists === true;
  switch (kind) {
    case 'CommentStmt':
      return [];
    case 'CreateStmt':
      progress.created.add(tableOf(statement));
      return repeatable ? [] : ['create table without "if not exists"'];
    case 'IndexStmt':
      return unsafeIndex(statement, progress);
    case 'DropStmt':
      return unsafeDrop(statement, progress);
    case 'AlterTableStmt': {
      const table = tableOf(statement);
      return (statement.cmds as { AlterTableCmd: Node }[]).flatMap(({ AlterTableCmd: change }) => {
        const unsafe = unsafeChange(table, change, progress);
        return progress.created.has(table) ? [] : unsafe.map((problem) => `alter table ${table}: ${problem}`);
      });
    }
    default:
      return [kind];
  }
}

function unsafeIndex(statement: Node, { migration, created }: Progress): string[] {
  if (created.has(tableOf(statement))) return [];
  const on = `create index on ${tableOf(statement)}`;
  if (statement.concurrent !== true) return [`${on}: not concurrently`];
  if (migration.transaction) return [`${on}: concurrently in a transaction`];
  return statement.if_not_exists === true ? [] : [`${on}: without "if not exists"`];
}

function unsafeDrop({ removeType, concurrent, missing_ok }: Node, { migration }: Progress): string[] {
  if (removeType !== 'OBJECT_INDEX') return [`drop of ${removeType}: older programs may use it`];
  if (migration.transaction) return concurrent === true ? ['drop index concurrently in a transaction'] : [];
  return missing_ok === true ? [] : ['drop index without "if exists"'];
}

function unsafeChange(table: string, change: Node, progress: Progress): string[] {
  const { transaction } = progress.migration;
  const { subtype, name, def, missing_ok } = change as { [member: string]: string | undefined } & {
    def?: { ColumnDef?: Node; Constraint?: Node };
  };
  switch (subtype) {
    case 'AT_AddColumn':
      return [
        ...(transaction || missing_ok ? [] : ['add column without "if not exists"']),
        ...unsafeColumn(def?.ColumnDef ?? {}),
      ];
    case 'AT_AddConstraint':
      return unsafeConstraint(def?.Constraint ?? {}, progress);
    case 'AT_ValidateConstraint':
      for (const column of progress.checks.get(name ?? '') ?? []) progress.required.add(`${table}.${column}`);
      return transaction ? ['validate constraint in a transaction'] : [];
    case 'AT_SetNotNull':
      return progress.required.has(`${table}.${name}`)
        ? []
        : [`set not null without a validated check of ${name}`];
    case 'AT_DropConstraint':
      return transaction || missing_ok ? [] : ['drop constraint without "if exists"'];
    case 'AT_ColumnDefault':
    case 'AT_DropNotNull':
    case 'AT_SetStatistics':
    case 'AT_SetStorage':
    case 'AT_SetCompression':
    case 'AT_SetRelOptions':
      return [];
    default:
      return [String(subtype)];
  }
}

/** A new column may have a default that PostgreSQL evaluates once, and must have one if it is not null. */
function unsafeColumn({ constraints = [] }: Node): string[] {
  const kinds = (constraints as { Constraint: Node }[]).map(({ Constraint: constraint }) => constraint);
  const hasDefault = kinds.some(({ contype }) => contype === 'CONSTR_DEFAULT');
  return kinds.flatMap(({ contype, raw_expr }) => {
    if (contype === 'CONSTR_NULL') return [];
    if (contype === 'CONSTR_NOTNULL') return hasDefault ? [] : ['add column not null without a default'];
    if (contype === 'CONSTR_DEFAULT')
      return JSON.stringify(raw_expr).includes('FuncCall') ? ['add column with a computed default'] : [];
    return [`add column with ${contype}`];
  });
}

function unsafeConstraint(constraint: Node, { checks }: Progress): string[] {
  const { contype, conname, skip_validation, indexname, raw_expr } = constraint;
  if (['CONSTR_UNIQUE', 'CONSTR_PRIMARY'].includes(String(contype)))
    return indexname === undefined ? ['add constraint without "using index"'] : [];
  if (skip_validation !== true) return ['add constraint without "not valid"'];
  checks.set(String(conname), requiredColumns(raw_expr as Node | undefined));
  return [];
}

/** The columns in conditions of the form `column is not null`. */
function requiredColumns(expression: Node | undefined): string[] {
  const parts = (expression?.BoolExpr as Node | undefined)?.args ?? [expression];
  return (parts as ({ NullTest?: Node } | undefined)[]).flatMap((part) =>
    part?.NullTest?.nulltesttype === 'IS_NOT_NULL'
      ? [String(/"sval":"(\w+)"/.exec(JSON.stringify(part.NullTest.arg))?.[1])]
      : [],
  );
}

function tableOf({ relation }: Node): string {
  return String((relation as Node).relname);
}

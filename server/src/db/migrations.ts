import { readdirSync, readFileSync } from 'node:fs';

const directory = new URL('./migrations/', import.meta.url);

/** A migration file: `0001_foundation.sql` has the version 1. */
export interface Migration {
  version: number;
  name: string;
  text: string;
  /** Programs that know this version, or a later one, may run after the migration. */
  oldestProgram: number;
  /** Whether it runs as one transaction. Otherwise each of its statements can be repeated. */
  transaction: boolean;
}

let known: readonly Migration[] | undefined;

/** The migrations of this release, oldest first. */
export function migrations(): readonly Migration[] {
  known ??= readMigrations(); // a start needs them six times
  return known;
}

function readMigrations(): Migration[] {
  return readdirSync(directory)
    .filter((file) => /^\d{4}_.+\.sql$/.test(file))
    .sort()
    .map((file) => parseMigration(file, readFileSync(new URL(file, directory), 'utf8')));
}

/**
 * Reads the lines that a migration declares about itself: `-- oldest program: 52` and `-- no transaction`.
 * Without the first, no older program may run.
 */
export function parseMigration(file: string, text: string): Migration {
  const version = Number(file.slice(0, 4));
  const declared = /^-- oldest program: (\d+)$/m.exec(text)?.[1];
  return {
    version,
    name: file.slice(5, -4),
    text,
    oldestProgram: declared === undefined ? version : Number(declared),
    transaction: !/^-- no transaction$/m.test(text),
  };
}

/**
 * The statements of a migration, each with the comments before it. A statement ends with the line. The lines
 * of a body between two `$$` are parts of its statement.
 */
export function statementsOf({ text }: Pick<Migration, 'text'>): string[] {
  const statements: string[] = [];
  for (const part of text.split(/;[ \t]*$/m)) {
    const last = statements.at(-1) ?? '';
    const isInBody = last.split('$$').length % 2 === 0;
    if (isInBody) statements.push(`${statements.pop()};${part}`);
    else statements.push(part);
  }
  return statements.filter((statement) => statement.replaceAll(/^--.*$/gm, '').trim() !== '');
}

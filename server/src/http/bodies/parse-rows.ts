import { isUtf8 } from 'node:buffer';
import { parse } from 'csv-parse/sync';
import { problemsWithin } from '../../contract/problems.ts';
import { textProblems } from '../../contract/text-problems.ts';
import {
  type ImportFailure,
  type ImportUser,
  ImportUser as ImportUserSchema,
  MAX_IMPORTED_USERS,
} from '../../contract/user-import.ts';
import { problemsIn } from '../../contract/validation.ts';
import type { ImportPage } from '../../domain/people/imports/create.ts';
import { ClientError } from '../../errors.ts';
import { chunksOf } from '../../lib/chunks.ts';
import { csvDelimiter } from '../../lib/csv-delimiter.ts';
import { keepNumbers, readJson, writeJson } from '../../lib/exact-numbers.ts';
import { scanObject } from '../../lib/json-member.ts';
import { isRecord } from '../../lib/members.ts';
import { packJson } from '../../lib/packed-json.ts';

/** The media types of rows, with their formats. */
export const ROW_FORMATS = {
  'application/x-ndjson': 'ndjson',
  'application/ndjson': 'ndjson',
  'text/csv': 'csv',
} as const;
export type RowFormat = (typeof ROW_FORMATS)[keyof typeof ROW_FORMATS];

const PAGE = 1_000;
const MAX_PROBLEMS = 10;
const MAX_COLUMNS = 200;
const MAX_HEADER_BYTES = 100_000;
const MAX_MESSAGE = 300;
const LINE_LIMITS = { keysAndValues: 10_000, inMember: 10_000, levels: 100 };

/** A row: a value, or what is wrong with its text. */
type Row = { value: unknown } | { value: unknown; problems: string[] };

/**
 * Validates the users of a JSON body one by one, and divides them into pages. `within` is the member of the
 * body that has the list.
 */
export function pagesOfUsers(users: readonly unknown[], within: string | undefined): ImportPage[] {
  const rows = users.map((value) => ({ value }));
  return pagesOf(rows, within);
}

/**
 * Does the same for a body of NDJSON or CSV. Throws a ClientError for a body that cannot be divided into
 * rows.
 */
export function parseRows(sent: Buffer, format: RowFormat): ImportPage[] {
  if (!isUtf8(sent)) throw new ClientError('bad_request', ['The request body is not UTF-8']);
  return pagesOf(format === 'ndjson' ? ndjsonRows(sent) : csvRows(sent));
}

function pagesOf(rows: readonly Row[], within?: string): ImportPage[] {
  if (rows.length === 0 || rows.length > MAX_IMPORTED_USERS) {
    const limit = rows.length === 0 ? 'at least 1 item' : `at most ${MAX_IMPORTED_USERS} items`;
    const problems = problemsWithin(within, [`Param 'users' must have ${limit}`]);
    throw new ClientError('validation_failed', problems);
  }
  return chunksOf(rows, PAGE).map((page, index) => pageOf(page, index * PAGE + 1));
}

function pageOf(rows: readonly Row[], firstRow: number): ImportPage {
  const valid: [number, ImportUser][] = [];
  const failures: ImportFailure[] = [];
  rows.forEach((row, index) => {
    const problems = 'problems' in row ? row.problems : problemsOfUser(row.value);
    if (problems.length === 0) valid.push([firstRow + index, row.value as ImportUser]);
    else failures.push(failureOf(firstRow + index, row.value, problems));
  });
  return {
    size: rows.length,
    rows: packJson(writeJson(valid)),
    failures: failures.length === 0 ? null : packJson(JSON.stringify(failures)),
  };
}

const schemaProblems = problemsIn(ImportUserSchema);

function problemsOfUser(user: unknown): string[] {
  return [...new Set([...schemaProblems(user), ...textProblems(undefined, user)])];
}

function failureOf(row: number, value: unknown, problems: readonly string[]): ImportFailure {
  const { external_id, email } = Object(value) as { external_id?: unknown; email?: unknown };
  const user = {
    ...(typeof external_id === 'string' ? { external_id: shown(external_id) } : {}),
    ...(typeof email === 'string' ? { email: shown(email) } : {}),
  };
  return { row, user, errors: problems.slice(0, MAX_PROBLEMS).map((message) => ({ message })) };
}

function shown(text: string): string {
  return text.slice(0, 255).toWellFormed();
}

function ndjsonRows(sent: Buffer): Row[] {
  const rows: Row[] = [];
  for (let start = 0; start < sent.length && rows.length <= MAX_IMPORTED_USERS; ) {
    const found = sent.indexOf('\n', start);
    const end = found < 0 ? sent.length : found;
    const line = sent.subarray(start, end);
    start = end + 1;
    const text = line
      .toString()
      .replace(/^\ufeff/, '')
      .trim();
    if (text !== '') rows.push(lineOf(line, text));
  }
  return rows;
}

function lineOf(line: Buffer, text: string): Row {
  const value = undefined;
  try {
    const { exceeded } = scanObject(line, { limits: LINE_LIMITS });
    if (exceeded !== undefined) return { value, problems: ['The user has too many keys and values'] };
    return { value: readJson(text) };
  } catch (error) {
    if (error instanceof SyntaxError) return { value, problems: ['The line is not valid JSON'] };
    throw error;
  }
}

const TEXT_COLUMNS = ['external_id', 'email', 'first_name', 'last_name', 'locale'];
const COLUMNS = [...TEXT_COLUMNS, 'phone_numbers', 'custom_attributes'];
// Exports have them; they are ignored.
const READ_ONLY_COLUMNS = ['id', 'created_at', 'updated_at', 'last_seen_at', 'last_notified_at'];
const ATTRIBUTE = 'custom_attributes.';

function csvRows(sent: Buffer): Row[] {
  const records = csvRecords(sent);
  const header = (records.shift() ?? []).map((name) => name.trim());
  checkHeader(header);
  return records.map((record) => userOf(header, record));
}

function csvRecords(sent: Buffer): string[][] {
  const delimiter = csvDelimiter(headerOf(sent));
  try {
    return parse(sent, {
      bom: true,
      delimiter,
      relax_column_count: true,
      skip_empty_lines: true,
      // One more than allowed, and the header.
      to: MAX_IMPORTED_USERS + 2,
    });
  } catch (error) {
    if ((error as { code?: unknown }).code === undefined) throw error;
    // The message can repeat a value.
    const message = (error as Error).message.slice(0, MAX_MESSAGE);
    throw new ClientError('validation_failed', [`The CSV is not valid: ${message.toWellFormed()}`]);
  }
}

/** Throws for a header that is too long: millions of columns would occupy the parser for seconds. */
function headerOf(sent: Buffer): string {
  const [header = ''] = sent.toString('utf8', 0, MAX_HEADER_BYTES + 1).split(/[\r\n]/, 1);
  if (Buffer.byteLength(header) <= MAX_HEADER_BYTES) return header;
  throw new ClientError('validation_failed', [
    `The header of the CSV has more than ${MAX_HEADER_BYTES} bytes`,
  ]);
}

function checkHeader(header: readonly string[]): void {
  if (header.length > MAX_COLUMNS)
    throw new ClientError('validation_failed', [`The CSV has more than ${MAX_COLUMNS} columns`]);
  const problems = header.flatMap((name, index) => {
    const shownName = JSON.stringify(name.slice(0, 100));
    if (
      ![...COLUMNS, ...READ_ONLY_COLUMNS].includes(name) &&
      !(name.startsWith(ATTRIBUTE) && name.length > ATTRIBUTE.length)
    ) {
      const known = [...COLUMNS, `${ATTRIBUTE}<name>`].join(', ');
      return [`The CSV has an unknown column ${shownName}; known are ${known}`];
    }
    return header.indexOf(name) < index ? [`The CSV has the column ${shownName} twice`] : [];
  });
  if (!header.includes('external_id') && !header.includes('email'))
    problems.push('The CSV needs a column external_id or email');
  if (problems.length > 0) throw new ClientError('validation_failed', [...new Set(problems)]);
}

/** Returns the user of a record. Empty cells change nothing. */
function userOf(header: readonly string[], record: readonly string[]): Row {
  const user: Record<string, unknown> = {};
  const attributes: [string, unknown][] = [];
  let given: object = {};
  const problems: string[] = [];
  if (record.length > header.length)
    problems.push(`The line has ${record.length} values, and the header ${header.length} columns`);
  header.forEach((name, index) => {
    const text = record[index] ?? '';
    if (text.trim() === '' || READ_ONLY_COLUMNS.includes(name)) return;
    if (TEXT_COLUMNS.includes(name)) user[name] = text;
    else if (name === 'phone_numbers') user[name] = text.split(/[;,]/).map((number) => number.trim());
    else if (name.startsWith(ATTRIBUTE)) attributes.push([name.slice(ATTRIBUTE.length), text]);
    else {
      const parsed = objectIn(text);
      if (parsed === undefined) problems.push("Param 'custom_attributes' must be a JSON object");
      else {
        given = parsed;
        attributes.push(...Object.entries(parsed));
      }
    }
  });
  if (attributes.length > 0) user.custom_attributes = keepNumbers(given, Object.fromEntries(attributes));
  if (problems.length === 0) return { value: user };
  return { value: user, problems: [...problems, ...problemsOfUser(user)] };
}

function objectIn(text: string): object | undefined {
  try {
    if (scanObject(Buffer.from(text), { limits: LINE_LIMITS }).exceeded !== undefined) return undefined;
    const value = readJson(text);
    return isRecord(value) ? value : undefined;
  } catch (error) {
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
}

import { isUtf8 } from 'node:buffer';
import { readFile } from 'node:fs/promises';
import { extname } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parse } from 'csv-parse/sync';
import { MAX_IMPORTED_USERS, type UserImport } from '../contract/user-import.ts';
import { csvDelimiter } from '../lib/csv-delimiter.ts';
import { ApiError, projectTarget, request, type ServerOptions, type Target } from './api.ts';
import { CommandError, UsageError, unreadable } from './command.ts';
import { print, printJson } from './output.ts';
import { progress } from './progress.ts';

/** A part of a file that is one import. */
interface Part {
  body: string;
  users: number;
}

// Below the limit of the server, 10 MiB.
const MAX_BYTES = 9 * 2 ** 20;
// About four million users, for which the command takes 2 GB of memory.
const MAX_FILE_BYTES = 250_000_000;
const POLL_MS = 300;
const BAR_CELLS = 20;

/** `belfry users import`: imports the users of a file through the API, 10,000 at a time. */
export async function importUsers(
  file: string,
  { json, ...options }: ServerOptions & { json?: boolean },
): Promise<void> {
  const { mediaType, parts } = partsOf(file, await textOf(file));
  const target = projectTarget(options);
  const total = parts.reduce((sum, { users }) => sum + users, 0);
  const result = { total, created: 0, updated: 0, failed: 0, failures: [] as UserImport['failures'] };
  const bar = progress();
  let before = 0;
  try {
    for (const part of parts) {
      const done = await importPart(target, mediaType, part, ({ done, failed }) =>
        bar.show(barText(before + done, total, result.failed + failed)),
      );
      result.created += done.created;
      result.updated += done.updated;
      result.failed += done.failed;
      result.failures.push(...done.failures.map((failure) => ({ ...failure, row: before + failure.row })));
      before += part.users;
    }
  } finally {
    bar.end();
  }
  if (json) printJson(result);
  else {
    for (const { row, user, errors } of result.failures) {
      const name = user.external_id ?? user.email ?? 'without a name';
      print(`user ${row} (${name}) failed: ${errors.map(({ message }) => message).join('; ')}`);
    }
    print(`${total} users: ${result.created} created, ${result.updated} updated, ${result.failed} failed`);
  }
  if (result.failed > 0) process.exitCode = 1;
}

async function importPart(
  target: Target,
  mediaType: string,
  { body }: Part,
  onPoll: (state: UserImport) => void,
): Promise<UserImport> {
  const headers = { 'content-type': mediaType };
  let state = await patiently(target, '/users/import', { method: 'POST', headers, body });
  while (state.status !== 'processed') {
    onPoll(state);
    await sleep(POLL_MS);
    state = await patiently(target, `/imports/${state.id}`, {});
  }
  return state;
}

/** Sends a request. A server that is busy does not end the import. */
async function patiently(
  target: Target,
  path: string,
  init: Parameters<typeof request>[2],
): Promise<UserImport> {
  for (;;) {
    try {
      return (await (await request(target, path, init)).json()) as UserImport;
    } catch (error) {
      if (!(error instanceof ApiError) || (error.status !== 429 && error.status !== 503)) throw error;
      await sleep(error.retryAfterMs ?? 1_000);
    }
  }
}

function barText(done: number, total: number, failed: number): string {
  const cells = Math.round((done / total) * BAR_CELLS);
  return `[${'#'.repeat(cells).padEnd(BAR_CELLS, '-')}] ${done} of ${total} users, ${failed} failed`;
}

async function textOf(file: string): Promise<string> {
  const bytes = await readFile(file).catch(unreadable(file));
  if (bytes.length > MAX_FILE_BYTES) throw new CommandError(`${file} is larger than 250 MB: divide it`);
  if (!isUtf8(bytes)) throw new CommandError(`${file} is not UTF-8: save it with this encoding`);
  return bytes.toString();
}

/** Divides a file into imports. */
function partsOf(file: string, text: string): { mediaType: string; parts: Part[] } {
  switch (extname(file).toLowerCase()) {
    case '.csv': {
      const [header = '', ...records] = csvRecords(file, text);
      return { mediaType: 'text/csv', parts: divided(file, records, header) };
    }
    case '.ndjson':
    case '.jsonl': {
      const lines = text.split('\n').filter((line) => line.trim() !== '');
      return { mediaType: 'application/x-ndjson', parts: divided(file, lines) };
    }
    case '.json': {
      const lines = jsonUsers(file, text).map((user) => JSON.stringify(user));
      return { mediaType: 'application/x-ndjson', parts: divided(file, lines) };
    }
    default:
      throw new UsageError(`${file} must end in .csv, .json, .ndjson or .jsonl`);
  }
}

/** Returns the records as they are in the file, which may have line breaks within quotes. */
function csvRecords(file: string, text: string): string[] {
  const [header = ''] = text.split('\n', 1);
  try {
    const records = parse(text, {
      bom: true,
      raw: true,
      delimiter: csvDelimiter(header),
      relax_column_count: true,
      skip_empty_lines: true,
      // Without line breaks alone: tabs and spaces at the ends belong to cells.
      on_record: (record) => [(record as unknown as { raw: string }).raw.replace(/^[\r\n]+|[\r\n]+$/g, '')],
    });
    return records.map(([raw = '']) => raw);
  } catch (error) {
    throw new CommandError(`${file} is not valid CSV: ${(error as Error).message}`);
  }
}

function jsonUsers(file: string, text: string): unknown[] {
  try {
    const value: unknown = JSON.parse(text.replace(/^\ufeff/, ''));
    const users = Array.isArray(value) ? value : (value as { users?: unknown } | null)?.users;
    if (Array.isArray(users)) return users;
  } catch (error) {
    throw new CommandError(`${file} is not valid JSON: ${(error as Error).message}`);
  }
  throw new CommandError(`${file} must be a list of users, or {"users": […]}`);
}

function divided(file: string, rows: readonly string[], header?: string): Part[] {
  if (rows.length === 0) throw new CommandError(`${file} has no users`);
  const parts: Part[] = [];
  let lines: string[] = [];
  let bytes = 0;
  const end = () => {
    const all = header === undefined ? lines : [header, ...lines];
    parts.push({ body: `${all.join('\n')}\n`, users: lines.length });
    [lines, bytes] = [[], 0];
  };
  for (const row of rows) {
    const length = Buffer.byteLength(row) + 1;
    if (lines.length === MAX_IMPORTED_USERS || (lines.length > 0 && bytes + length > MAX_BYTES)) end();
    lines.push(row);
    bytes += length;
  }
  end();
  return parts;
}

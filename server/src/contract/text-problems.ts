import { MAX_MESSAGES, nameOfPath, TEXT_PROBLEM } from './problems.ts';

const ESCAPE = Buffer.from('\\u');
// Beyond this, to search a text that is made to be searched slowly takes longer than to look at every value.
const SEARCHED_BYTES = 256 * 1024;

/**
 * Which strings of a JSON body, and which keys, hold U+0000 or half of a surrogate pair: PostgreSQL stores
 * neither, and vendors reject them or change them. In valid UTF-8 both can be written as an escape only, so
 * most short bodies need no look at their values. `json` is undefined for a body that was parsed by another
 * thread.
 */
export function textProblems(json: Buffer | undefined, body: unknown): string[] {
  if (json !== undefined && json.length <= SEARCHED_BYTES && !json.includes(ESCAPE)) return [];
  const problems: string[] = [];
  look(body, [], problems);
  return problems;
}

function look(value: unknown, path: (string | number)[], problems: string[]): void {
  if (problems.length >= MAX_MESSAGES) return;
  if (typeof value === 'string') {
    if (!isText(value)) problems.push(`Param '${nameOfPath(path)}' ${TEXT_PROBLEM}`);
    return;
  }
  if (typeof value !== 'object' || value === null) return;
  if (Array.isArray(value)) {
    for (let at = 0; at < value.length; at += 1) {
      path.push(at);
      look(value[at], path, problems);
      path.pop();
    }
    return;
  }
  for (const key in value) {
    if (!isText(key)) problems.push(`Param '${nameOfPath(path)}' has a key that ${TEXT_PROBLEM}`);
    path.push(key);
    look((value as Record<string, unknown>)[key], path, problems);
    path.pop();
  }
}

function isText(text: string): boolean {
  return text.isWellFormed() && !text.includes('\0');
}

import { MAX_MESSAGES, nameOfPath, TEXT_PROBLEM } from './problems.ts';

const ESCAPE = Buffer.from('\\u');
// In longer texts a hostile search takes longer than a look at every value.
const SEARCHED_BYTES = 256 * 1024;

/**
 * Returns a problem for each string and key of a JSON body that contains U+0000 or a lone surrogate:
 * PostgreSQL stores neither, and vendors reject or change them. In valid UTF-8 both are escapes, so most
 * short bodies need no look at their values. `json` is undefined if the text is unknown.
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

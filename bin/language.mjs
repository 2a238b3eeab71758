// Checks the language of the repository: banned words, long lines, and the subjects of new commits.
import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { root } from './runtime.mjs';
import { BANNED, EXEMPT } from './words.mjs';

const LINE_LENGTH = 110;
const SUBJECT_LENGTH = 72;
const BASE = '5bda91d8e965c12b7145e1551bf810644fdb6dc3'; // older commits keep their subjects
const TEXT = /\.(ts|tsx|mjs|cjs|sql|md|jsonc)$/;
const SKIPPED = /(^|\/)(node_modules|dist|data|generated|results)$|(^|\/)\.(?!dependency|ci)/;
const IGNORED = /language-ignore: \S/; // on the line or the one before, with the reason

const files = textsIn('').filter((file) => !file.startsWith(EXEMPT));
let failed = files.length === 0;

for (const problem of files.flatMap(problemsIn)) report(problem);
for (const subject of newSubjects()) {
  if (subject.length > SUBJECT_LENGTH) report(`commit subject over ${SUBJECT_LENGTH} characters: ${subject}`);
}
process.exitCode = failed ? 1 : 0;

function report(problem) {
  failed = true;
  console.error(problem);
}

function textsIn(folder) {
  return readdirSync(join(root, folder), { withFileTypes: true }).flatMap((entry) => {
    const path = folder === '' ? entry.name : `${folder}/${entry.name}`;
    if (SKIPPED.test(path) || path === 'bin/words.mjs') return [];
    if (entry.isDirectory()) return textsIn(path);
    return TEXT.test(path) ? [path] : [];
  });
}

function problemsIn(file) {
  const found = [];
  // The path is line 0, because a file name can hold a banned word, too.
  const lines = [file, ...readFileSync(join(root, file), 'utf8').split('\n')];
  for (const [number, line] of lines.entries()) {
    if (IGNORED.test(line) || IGNORED.test(lines[number - 1])) continue;
    const words = line.replaceAll(/(?<=[a-z])(?=[A-Z])|(?<=\w)[-_](?=\w)/g, ' ');
    for (const [pattern, use] of BANNED) {
      const match = pattern.exec(words);
      if (match) found.push(`${file}:${number}: instead of '${match[0].trim()}': ${use}`);
    }
    if (line.length > LINE_LENGTH && !line.startsWith('|') && !/https?:\/\/\S{60}/.test(line))
      found.push(`${file}:${number}: ${line.length} characters`);
  }
  return found;
}

/** The subjects of the commits since BASE, as far as this clone has them. */
function newSubjects() {
  for (const base of [BASE, 'origin/main']) {
    try {
      const log = ['log', '--no-merges', '--format=%s', `${base}..HEAD`];
      return execFileSync('git', log, { cwd: root, encoding: 'utf8', stdio: 'pipe' }).split('\n');
    } catch {
      // No git, no history, or a shallow clone without this commit.
    }
  }
  return [];
}

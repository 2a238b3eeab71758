import { readFileSync } from 'node:fs';

/** Counts what `results-reporter.mjs` has written so far; nothing where the runner never began. */
export function countResults(file) {
  const counts = { passed: 0, failed: 0, skipped: 0, files: { total: 0, done: 0 }, ended: false };
  for (const result of resultsIn(file)) {
    if (result.files !== undefined) counts.files.total = result.files;
    if (result.test !== undefined) counts[result.test] += 1;
    if (result.file !== undefined) counts.files.done += 1;
    if (result.file === 'broken') counts.failed += 1;
    if (result.ended) counts.ended = true;
  }
  return counts;
}

function resultsIn(file) {
  let text;
  try {
    text = readFileSync(file, 'utf8');
  } catch {
    return []; // the runner failed before it began, and has printed why
  }
  return text
    .split('\n')
    .slice(0, -1) // behind the last line there is nothing, or half a line
    .map((line) => JSON.parse(line));
}

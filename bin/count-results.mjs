import { readFileSync } from 'node:fs';

/** Counts the results that `results-reporter.mjs` has written so far. */
export function countResults(file) {
  const counts = { passed: 0, failed: 0, skipped: 0, flaky: [], files: { total: 0, done: 0 }, ended: false };
  for (const result of resultsIn(file)) {
    if (result.files !== undefined) counts.files.total = result.files;
    if (result.test !== undefined) counts[result.test] += 1;
    if (result.flaky !== undefined) counts.flaky.push(result.flaky);
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
    return []; // the runner failed before it started, and has printed why
  }
  return text
    .split('\n')
    .slice(0, -1) // what follows the last newline is empty or half a line
    .map((line) => JSON.parse(line));
}

import { performance } from 'node:perf_hooks';
import { getHeapStatistics, setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

const LOOK_EVERY_MS = 500;
// At rest is who has used less than a twentieth of the time, so often in a row.
const REST = 0.05;
const RESTING_LOOKS = 2;
const MEGABYTE = 1024 * 1024;
// What is worth a collection, and what would take too long to collect at once: a pause of a tenth of a second
// is for 100 MB.
const WORTH_BYTES = 8 * MEGABYTE;
const TOO_MUCH_BYTES = 256 * MEGABYTE;

/**
 * Collects what the start left behind (sources, schemas that are compiled by now) and gives it back to the
 * system: about a quarter of the process, which would otherwise stay until load comes. Takes some 50 ms, so
 * it is done before anybody waits. The same is done from now on whenever a crowd has come and gone, or sits
 * still, and nothing else is to do.
 */
export function giveBackMemory(): void {
  collect();
  let afterBytes = getHeapStatistics().total_physical_size;
  let before = performance.eventLoopUtilization();
  let looks = 0;
  setInterval(() => {
    const now = performance.eventLoopUtilization();
    const { utilization } = performance.eventLoopUtilization(now, before);
    before = now;
    looks = utilization < REST ? looks + 1 : 0;
    if (looks < RESTING_LOOKS) return;
    const { total_physical_size: bytes } = getHeapStatistics();
    if (bytes < afterBytes + WORTH_BYTES || bytes > TOO_MUCH_BYTES) return;
    collect();
    afterBytes = getHeapStatistics().total_physical_size;
  }, LOOK_EVERY_MS).unref();
}

function collect(): void {
  setFlagsFromString('--expose-gc');
  const collectAll = runInNewContext('gc') as (options?: { type: 'major'; flavor: 'last-resort' }) => void;
  setFlagsFromString('--no-expose-gc');
  collectAll({ type: 'major', flavor: 'last-resort' });
}

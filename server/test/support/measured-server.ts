import { deserialize, serialize } from 'node:v8';
import { startService } from '../../src/app.ts';
import { readConfig } from '../../src/config.ts';
import { createLogger } from '../../src/lib/log.ts';
import { createProjectKeys } from './project-keys.ts';

// The process that start-measured-server.ts starts: a whole server that measures the longest turn of its
// event loop.

let measuring = false;
let longestMs = 0;
let turnBeganMs = 0;

/** CPU time of the thread: on a busy machine, the clock also counts the time that the thread waits. */
function cpuMs(): number {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1_000;
}

function turn(): void {
  const nowMs = cpuMs();
  longestMs = Math.max(longestMs, nowMs - turnBeganMs);
  turnBeganMs = nowMs;
  if (measuring) setImmediate(turn).unref();
}

const CHARACTERS = 10 * 1024 * 1024;
const COPIES = 5;

/**
 * The CPU time of copying a text of 10 Mi characters, of two bytes each, into new memory: the shortest of
 * some copies.
 */
function copyMs(): number {
  const text = serialize('字'.repeat(CHARACTERS));
  let shortestMs = Number.POSITIVE_INFINITY;
  for (let copy = 1; copy <= COPIES; copy += 1) {
    const beganMs = cpuMs();
    deserialize(text);
    shortestMs = Math.min(shortestMs, cpuMs() - beganMs);
  }
  return shortestMs;
}

const service = await startService(readConfig(), { log: createLogger({ level: 'silent' }) });

process.on('message', (message) => {
  if (message === 'begin') {
    measuring = true;
    longestMs = 0;
    turnBeganMs = cpuMs();
    setImmediate(turn).unref();
    process.send?.({ to: message });
  } else if (message === 'end') {
    measuring = false;
    process.send?.({ to: message, ms: longestMs });
  } else if (message === 'copy') {
    process.send?.({ to: message, ms: copyMs() });
  } else {
    void service.stop().then(() => process.exit());
  }
});
process.send?.({
  address: service.address,
  projects: [
    await createProjectKeys(service.context, 'first'),
    await createProjectKeys(service.context, 'second'),
    await createProjectKeys(service.context, 'third'),
  ],
});

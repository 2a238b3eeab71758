import { startService } from '../../src/app.ts';
import { readConfig } from '../../src/config.ts';
import { createProject } from '../../src/domain/setup/projects/create.ts';
import { issueToken } from '../../src/domain/setup/projects/tokens.ts';
import { createLogger } from '../../src/lib/log.ts';
import type { MeasuredKeys } from './start-measured-server.ts';

// A whole server in a process of its own, which reports how long its event loop was kept from other work: see
// start-measured-server.ts.

let measuring = false;
let longestMs = 0;
let turnBeganMs = 0;

/** By the thread's CPU time: on a busy machine the clock goes on while the thread does not. */
function cpuMs(): number {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1_000;
}

function turn(): void {
  const nowMs = cpuMs();
  longestMs = Math.max(longestMs, nowMs - turnBeganMs);
  turnBeganMs = nowMs;
  if (measuring) setImmediate(turn);
}

const service = await startService(readConfig(), { log: createLogger({ level: 'silent' }) });

async function newProject(name: string): Promise<MeasuredKeys> {
  const project = await createProject(service.context, name);
  const issued = project && (await issueToken(service.context, { projectId: project.id, name: 'test' }));
  if (project === undefined || issued === undefined) throw new Error(`no project ${name}`);
  const { id, apiKey, apiSecret } = project;
  return { id, apiKey, apiSecret, jwt: issued.token };
}

process.on('message', (message) => {
  if (message === 'begin') {
    measuring = true;
    longestMs = 0;
    turnBeganMs = cpuMs();
    setImmediate(turn);
    process.send?.({ begun: true });
  } else if (message === 'end') {
    measuring = false;
    process.send?.({ longestMs });
  } else {
    void service.stop().then(() => process.exit());
  }
});
process.send?.({
  address: service.address,
  projects: [await newProject('first'), await newProject('second'), await newProject('third')],
});

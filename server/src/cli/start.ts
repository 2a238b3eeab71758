import cluster from 'node:cluster';
import { flushCompileCache } from 'node:module';
import { type Service, startService } from '../app.ts';
import { readConfig } from '../config.ts';
import type { StartError } from '../db/embedded/start-error.ts';
import { hasDemo } from '../http/pages/demo.ts';
import { createLogger, type Logger } from '../lib/log.ts';
import { describeStartError } from './describe-start-error.ts';
import { collectLessOften, returnUnusedMemory } from './memory.ts';
import { print } from './output.ts';
import { runProcess } from './processes/run-process.ts';
import { supervise } from './processes/supervise.ts';

// npm, the launcher and a terminal may each pass on the same Ctrl-C, which then counts once.
const SAME_SIGNAL_MS = 1_000;

/** `belfry start [--role …]`: runs until SIGTERM or SIGINT, or until the launcher ends. */
export async function start({ role }: { role?: string }): Promise<void> {
  if (cluster.isWorker) return runProcess();
  const config = readConfig(undefined, { ROLE: role });
  const log = createLogger({ level: config.LOG_LEVEL });
  const stopped = Promise.withResolvers<number>();
  // Signals during the start count, too: it stops as soon as it can.
  listenForStop(stopped.resolve);
  const onLost = (error: StartError) => {
    console.error(`belfry: ${error.message}`);
    stopped.resolve(1);
  };
  const started =
    config.PROCESSES > 1 ? supervise(config, { log, onLost }) : startService(config, { log, onLost });
  const service = await started.catch((error: unknown) => {
    throw describeStartError(error);
  });
  returnUnusedMemory();
  collectLessOften();
  flushCompileCache(); // Node writes it only at an orderly end
  greet(service, log);
  const code = await stopped.promise;
  if (process.stdout.isTTY) print('Stopping…');
  else log.info('Belfry is stopping');
  await service.stop();
  process.exit(code);
}

function listenForStop(stop: (code: number) => void): void {
  let firstAt: number | undefined;
  const onSignal = () => {
    const now = Date.now();
    if (firstAt !== undefined && now - firstAt > SAME_SIGNAL_MS) process.exit(1); // the second signal
    firstAt ??= now;
    stop(0);
  };
  process.on('SIGINT', onSignal);
  process.on('SIGTERM', onSignal);
  process.on('SIGHUP', onSignal);
  // The launcher has the other end of this channel: after its end, no signal would stop this process.
  if (process.channel) {
    process.channel.unref();
    process.on('disconnect', () => stop(0));
  }
}

/** Says where the server is: to people on a terminal, or else as a line of the log, at any level. */
function greet(
  { address, credentials, context }: Pick<Service, 'address' | 'credentials' | 'context'>,
  log: Logger,
): void {
  const { DATA_DIR, DATABASE_URL, ROLE } = context.config;
  const ready = `Belfry is ready at ${address}`;
  const data = DATABASE_URL === undefined ? DATA_DIR : 'the database of DATABASE_URL';
  if (!process.stdout.isTTY) {
    // Scripts wait for it, also if only errors are logged.
    log.child({}, { level: 'info' }).info({ address, roles: ROLE, data }, ready);
    return;
  }
  const pages = [
    `  API            ${address}/v2`,
    `  Documentation  ${address}/docs`,
    ...(hasDemo(context.config) ? [`  Demo           ${address}/demo`] : []),
  ];
  const lines = [
    '',
    ready,
    ...(ROLE.includes('api') ? pages : [`  Roles          ${ROLE.join(', ')}`]),
    `  Data           ${data}`,
  ];
  if (credentials) {
    lines.push(
      `  Credentials    ${DATA_DIR}/credentials.json`,
      '',
      'Watch an inbox:',
      '',
      '  npx belfry listen ada',
      '',
      'and, in another terminal, send it a notification:',
      '',
      `  curl -X POST ${address}/v2/broadcasts \\`,
      `    -H "Authorization: Bearer $(node -p "require('${DATA_DIR}/credentials.json').project_jwt")" \\`,
      "    -H 'Content-Type: application/json' \\",
      `    -d '{"title": "Hello from Belfry", "recipients": [{"external_id": "ada"}]}'`,
    );
  }
  lines.push('');
  print(lines.join('\n'));
}

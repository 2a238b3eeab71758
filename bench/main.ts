import { chmodSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { Report } from './support/report.ts';
import type { Scenario } from './support/scenario.ts';

const USAGE = 'npm run bench -- [--only <part>,…] [--quick] [--keep <data directory>] [--profile]';

/**
 * A part that takes long runs only if it is named. The code of a part is loaded when it runs, because each
 * collection of garbage marks all that is loaded: 25 instead of 57 MB in the part of pushes.
 */
const SCENARIOS: Record<string, { title: string; load(): Promise<Scenario>; takesLong?: true }> = {
  memory: { title: 'memory', load: async () => (await import('./scenarios/memory.ts')).measureMemory },
  'fan-out': {
    title: 'notifications from broadcasts of 1000 recipients',
    load: async () => (await import('./scenarios/fan-out.ts')).measureFanOut,
  },
  accept: {
    title: 'accepting broadcasts',
    load: async () => (await import('./scenarios/accept.ts')).measureAccept,
  },
  realtime: {
    title: 'from the request to the socket',
    load: async () => (await import('./scenarios/realtime.ts')).measureRealtime,
  },
  nodes: {
    title: 'inboxes at another node, over NOTIFY and NATS',
    load: async () => (await import('./scenarios/nodes.ts')).measureNodes,
  },
  processes: {
    title: 'one process and two',
    load: async () => (await import('./scenarios/processes.ts')).measureProcesses,
  },
  email: { title: 'e-mail', load: async () => (await import('./scenarios/email.ts')).measureEmail },
  cost: {
    title: 'what a notification costs',
    load: async () => (await import('./scenarios/cost.ts')).measureCost,
  },
  inbox: {
    title: 'inbox and unread count in a large table',
    load: async () => (await import('./scenarios/inbox.ts')).measureInbox,
  },
  paint: {
    title: 'from the request to the paint in a browser',
    load: async () => (await import('./scenarios/paint.ts')).measurePaint,
  },
  scroll: {
    title: 'scrolling through an inbox of 100,000 notifications',
    load: async () => (await import('./scenarios/scroll.ts')).measureScroll,
  },
  openings: {
    title: 'ten thousand inboxes that open at once',
    load: async () => (await import('./scenarios/openings.ts')).measureOpenings,
  },
  reads: {
    title: 'every operation that reads, with a million rows',
    load: async () => (await import('./scenarios/reads.ts')).measureReads,
  },
  graphql: {
    title: 'an inbox page over GraphQL and REST',
    load: async () => (await import('./scenarios/graphql.ts')).measureGraphql,
  },
  imports: {
    title: 'importing users',
    load: async () => (await import('./scenarios/imports.ts')).measureImports,
  },
  templates: {
    title: 'broadcasts with a template',
    load: async () => (await import('./scenarios/templates.ts')).measureTemplates,
  },
  workflows: {
    title: 'runs of workflows',
    load: async () => (await import('./scenarios/workflows.ts')).measureWorkflows,
  },
  deliveries: {
    title: 'a campaign: inboxes and phones',
    load: async () => (await import('./scenarios/deliveries.ts')).measureDeliveries,
  },
  fairness: {
    title: 'a single message beside a bulk, and beside mailers that hang',
    load: async () => (await import('./scenarios/fairness.ts')).measureFairness,
  },
  bodies: {
    title: 'broadcasts of 10 MiB, with a heap of 400 MB',
    load: async () => (await import('./scenarios/large-bodies.ts')).measureLargeBodies,
  },
  http: {
    title: 'messages by vendors that speak HTTP/1.1',
    load: async () => (await import('./scenarios/http-providers.ts')).measureHttpProviders,
  },
  push: { title: 'pushes to phones', load: async () => (await import('./scenarios/push.ts')).measurePush },
  'web-push': {
    title: 'pushes to browsers, encrypted',
    load: async () => (await import('./scenarios/web-push.ts')).measureWebPush,
  },
  webhooks: {
    title: 'events to webhooks, with a history',
    load: async () => (await import('./scenarios/webhooks.ts')).measureWebhooks,
  },
  move: {
    title: 'a project that moves to another cell in use',
    load: async () => (await import('./scenarios/move.ts')).measureMove,
  },
  growth: {
    title: 'frequent operations in tables of 50 million rows (only if named: 20 minutes, 30 GB)',
    load: async () => (await import('./scenarios/growth.ts')).measureGrowth,
    takesLong: true,
  },
  soak: {
    title: 'an hour at 70 % of the load (only if named: 6 GB)',
    load: async () => (await import('./scenarios/soak.ts')).measureSoak,
    takesLong: true,
  },
};

process.setMaxListeners(0); // every child process adds one
const values = options();
const usual = Object.keys(SCENARIOS).filter((part) => SCENARIOS[part]?.takesLong !== true);
const chosen = values.only?.split(',') ?? usual;
const unknown = chosen.filter((part) => !Object.hasOwn(SCENARIOS, part));
if (unknown.length > 0) end(`no such part: ${unknown.join(', ')}`);
const results = join(import.meta.dirname, 'results');
const dataDir = values.keep ?? mkdtempSync(join(tmpdir(), 'belfry-bench-'));
// As root: PostgreSQL runs as another user inside it, and would else be outside, where nothing removes it.
if (values.keep === undefined) chmodSync(dataDir, 0o711);
const report = new Report();
try {
  for (const [part, { title, load }] of Object.entries(SCENARIOS)) {
    if (!chosen.includes(part)) continue;
    console.log(`\n${title}`);
    const measure = await load();
    await measure({
      dataDir,
      quick: values.quick,
      nodeArguments: values.profile
        ? ['--cpu-prof', `--cpu-prof-dir=${join(results, `profile-${part}`)}`]
        : [],
      figure: (figure) => report.add({ part, ...figure }),
    });
  }
  console.log(`\n${report.save(results, values)}`);
} finally {
  if (values.keep === undefined) rmSync(dataDir, { recursive: true, force: true });
}
process.exit();

/** The options of the command line. */
function options() {
  try {
    const { values } = parseArgs({
      options: {
        only: { type: 'string' },
        quick: { type: 'boolean', default: false },
        keep: { type: 'string' },
        profile: { type: 'boolean', default: false },
        help: { type: 'boolean', default: false },
      },
    });
    return values.help ? end() : values;
  } catch (error) {
    return end((error as Error).message);
  }
}

/** Prints how to use it, after a problem if there is one, and ends the process. */
function end(problem?: string): never {
  const parts = Object.entries(SCENARIOS).map(([part, { title }]) => `  ${part.padEnd(12)}${title}`);
  console.log([...(problem ? [problem, ''] : []), USAGE, '', 'Parts:', ...parts].join('\n'));
  process.exit(problem === undefined ? 0 : 2);
}

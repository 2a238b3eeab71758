import { chmodSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { measureAccept } from './scenarios/accept.ts';
import { measureCost } from './scenarios/cost.ts';
import { measureDeliveries } from './scenarios/deliveries.ts';
import { measureEmail } from './scenarios/email.ts';
import { measureFairness } from './scenarios/fairness.ts';
import { measureFanOut } from './scenarios/fan-out.ts';
import { measureGraphql } from './scenarios/graphql.ts';
import { measureGrowth } from './scenarios/growth.ts';
import { measureHttpProviders } from './scenarios/http-providers.ts';
import { measureImports } from './scenarios/imports.ts';
import { measureInbox } from './scenarios/inbox.ts';
import { measureLargeBodies } from './scenarios/large-bodies.ts';
import { measureMemory } from './scenarios/memory.ts';
import { measureMove } from './scenarios/move.ts';
import { measureNodes } from './scenarios/nodes.ts';
import { measureOpenings } from './scenarios/openings.ts';
import { measurePaint } from './scenarios/paint.ts';
import { measureProcesses } from './scenarios/processes.ts';
import { measurePush } from './scenarios/push.ts';
import { measureReads } from './scenarios/reads.ts';
import { measureRealtime } from './scenarios/realtime.ts';
import { measureScroll } from './scenarios/scroll.ts';
import { measureSoak } from './scenarios/soak.ts';
import { measureTemplates } from './scenarios/templates.ts';
import { measureWebPush } from './scenarios/web-push.ts';
import { measureWebhooks } from './scenarios/webhooks.ts';
import { measureWorkflows } from './scenarios/workflows.ts';
import { Report } from './support/report.ts';
import type { Scenario } from './support/scenario.ts';

const USAGE = 'npm run bench -- [--only <part>,…] [--quick] [--keep <data directory>] [--profile]';

/** A part that takes long runs only if it is named. */
const SCENARIOS: Record<string, { title: string; measure: Scenario; takesLong?: true }> = {
  memory: { title: 'memory', measure: measureMemory },
  'fan-out': { title: 'notifications from broadcasts of 1000 recipients', measure: measureFanOut },
  accept: { title: 'accepting broadcasts', measure: measureAccept },
  realtime: { title: 'from the request to the socket', measure: measureRealtime },
  nodes: { title: 'inboxes at another node, over NOTIFY and NATS', measure: measureNodes },
  processes: { title: 'one process and two', measure: measureProcesses },
  email: { title: 'e-mail', measure: measureEmail },
  cost: { title: 'what a notification costs', measure: measureCost },
  inbox: { title: 'inbox and unread count in a large table', measure: measureInbox },
  paint: { title: 'from the request to the paint in a browser', measure: measurePaint },
  scroll: { title: 'scrolling through an inbox of 100,000 notifications', measure: measureScroll },
  openings: { title: 'ten thousand inboxes that open at once', measure: measureOpenings },
  reads: { title: 'every operation that reads, with a million rows', measure: measureReads },
  graphql: { title: 'an inbox page over GraphQL and REST', measure: measureGraphql },
  imports: { title: 'importing users', measure: measureImports },
  templates: { title: 'broadcasts with a template', measure: measureTemplates },
  workflows: { title: 'runs of workflows', measure: measureWorkflows },
  deliveries: { title: 'a campaign: inboxes and phones', measure: measureDeliveries },
  fairness: {
    title: 'a single message beside a bulk, and beside mailers that hang',
    measure: measureFairness,
  },
  bodies: { title: 'broadcasts of 10 MiB, with a heap of 400 MB', measure: measureLargeBodies },
  http: { title: 'messages by vendors that speak HTTP/1.1', measure: measureHttpProviders },
  push: { title: 'pushes to phones', measure: measurePush },
  'web-push': { title: 'pushes to browsers, encrypted', measure: measureWebPush },
  webhooks: { title: 'events to webhooks, with a history', measure: measureWebhooks },
  move: { title: 'a project that moves to another cell in use', measure: measureMove },
  growth: {
    title: 'frequent operations in tables of 50 million rows (only if named: 20 minutes, 30 GB)',
    measure: measureGrowth,
    takesLong: true,
  },
  soak: {
    title: 'an hour at 70 % of the load (only if named: 6 GB)',
    measure: measureSoak,
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
  for (const [part, { title, measure }] of Object.entries(SCENARIOS)) {
    if (!chosen.includes(part)) continue;
    console.log(`\n${title}`);
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

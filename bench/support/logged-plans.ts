/** A node of a plan, as PostgreSQL's auto_explain writes it. */
interface PlanNode {
  'Node Type': string;
  'Scan Direction'?: string;
  'Subplan Name'?: string;
  'Index Name'?: string;
  'Relation Name'?: string;
  'Index Cond'?: string;
  Filter?: string;
  'Actual Rows': number;
  'Actual Loops': number;
  'Actual Total Time': number;
  'Rows Removed by Filter'?: number;
  'Rows Removed by Index Recheck'?: number;
  'Shared Hit Blocks': number;
  'Shared Read Blocks': number;
  Plans?: PlanNode[];
}

/** A statement that ran, and its plan. */
export interface LoggedPlan {
  /** The connection's name. */
  application: string;
  text: string;
  durationMs: number;
  plan: PlanNode;
}

/** Settings for `alter system` that log the plan of every statement to a file. */
export const EXPLAIN_SETTINGS: Readonly<Record<string, string>> = {
  session_preload_libraries: 'auto_explain',
  // Several connections log at once: the collector keeps their lines apart.
  logging_collector: 'on',
  log_rotation_size: '0',
  log_destination: 'jsonlog',
  'auto_explain.log_min_duration': '0',
  'auto_explain.log_analyze': 'on',
  'auto_explain.log_buffers': 'on',
  'auto_explain.log_format': 'json',
  'auto_explain.log_parameter_max_length': '0',
};

const MESSAGE = /^duration: ([\d.]+) ms {2}plan:\n/;

/** Parses the plans in a server's log. */
export function loggedPlans(log: string): LoggedPlan[] {
  return log.split('\n').flatMap((line) => {
    if (!line.endsWith('}')) return []; // incomplete: the last one
    const { application_name: application = '', message = '' } = JSON.parse(line) as Record<string, string>;
    const head = MESSAGE.exec(message);
    if (head === null) return [];
    const { 'Query Text': text, Plan: plan } = JSON.parse(message.slice(head[0].length)) as {
      'Query Text': string;
      Plan: PlanNode;
    };
    return [{ application, text, durationMs: Number(head[1]), plan }];
  });
}

/** How many rows a plan read from tables and indexes, with those that it filtered out. */
export function rowsRead(node: PlanNode): number {
  const below = (node.Plans ?? []).reduce((sum, one) => sum + rowsRead(one), 0);
  if (!node['Node Type'].endsWith('Scan') || node['Relation Name'] === undefined) return below;
  const passed = (node['Rows Removed by Filter'] ?? 0) + (node['Rows Removed by Index Recheck'] ?? 0);
  return below + Math.round((node['Actual Rows'] + passed) * node['Actual Loops']);
}

/** Tables that a plan reads completely. */
export function tablesScanned(node: PlanNode): string[] {
  const below = (node.Plans ?? []).flatMap(tablesScanned);
  return node['Node Type'] === 'Seq Scan' ? [node['Relation Name'] ?? '', ...below] : below;
}

/** A plan in a few lines: what it reads by which index, how many rows, and how many it filtered out. */
export function planText({ plan, durationMs }: LoggedPlan): string {
  const blocks = plan['Shared Hit Blocks'] + plan['Shared Read Blocks'];
  return [`${durationMs.toFixed(2)} ms, ${blocks} pages`, ...linesOf(plan, '')].join('\n');
}

function linesOf(node: PlanNode, indent: string): string[] {
  const backward = node['Scan Direction'] === 'Backward' ? ' backward' : '';
  const of = node['Relation Name'] === undefined ? '' : ` of ${node['Relation Name']}`;
  const by = node['Index Name'] === undefined ? '' : ` by ${node['Index Name']}${backward}`;
  const loops = node['Actual Loops'] === 1 ? '' : ` × ${node['Actual Loops']}`;
  const removed = node['Rows Removed by Filter'] ? `, ${node['Rows Removed by Filter']} filtered out` : '';
  const condition = node['Index Cond'] === undefined ? '' : ` where ${node['Index Cond']}`;
  const filter = node.Filter === undefined ? '' : ` if ${node.Filter}`;
  const rows = `${Math.round(node['Actual Rows'])} rows${loops}${removed}${condition}${filter}`;
  const line = `${indent}${node['Node Type']}${by || of}: ${rows}`;
  return [line, ...(node.Plans ?? []).flatMap((one) => linesOf(one, `${indent}  `))];
}

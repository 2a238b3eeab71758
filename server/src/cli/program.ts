import { Argument, Command, Option } from 'commander';
import { VERSION } from '../lib/version.ts';
import { reportErrors } from './command.ts';
import {
  parseCount,
  parseDuration,
  parseExpiry,
  parseLimit,
  parseName,
  parseOverlap,
  parseUserName,
} from './parse.ts';

/** The command line. Each command has its own file. */
export function createProgram(): Command {
  const belfry = new Command('belfry')
    .description(
      'A self-hosted notification delivery service. ' +
        'Settings are environment variables: see docs/reference/settings.md.',
    )
    .version(VERSION, '--version', 'print the release')
    .helpOption('-h, --help', 'explain the command')
    .helpCommand('help [command]', 'explain a command')
    .showHelpAfterError('(add --help for an explanation)')
    .addHelpText(
      'after',
      examples('belfry start', "belfry send --to ada --title 'Hello' --wait", 'belfry help token issue'),
    )
    .exitOverride()
    .hook('preAction', (_, action) => rejectBlanks(action));
  serverCommands(belfry);
  workflowCommands(belfry);
  projectCommands(belfry);
  tokenCommands(belfry);
  databaseCommands(belfry);
  repositoryCommands(belfry);
  return belfry;
}

function serverCommands(belfry: Command): void {
  command(belfry, 'start', 'belfry start', 'belfry start --role api,realtime')
    .description('run the server, with the embedded database unless DATABASE_URL is set')
    .option('--role <roles>', 'what this node does, instead of ROLE: api, worker, realtime')
    .action(verb(async () => (await import('./start.ts')).start));

  command(
    belfry,
    'send',
    "belfry send --to ada --to bob@example.com --title 'Hello' --content 'It <b>works</b>.' --wait",
    'belfry send - < broadcast.json',
  )
    .description('send a broadcast through the running server, from flags or as JSON')
    .argument('[body]', '"-" to read the broadcast as JSON from standard input')
    .option('--to <user>', 'an external id or an e-mail address; may be repeated', collect, [])
    .option('--title <text>', 'the title')
    .option('--content <text>', 'the content: HTML or plain text')
    .option('--action-url <url>', 'the address that a click opens')
    .option('--category <name>', 'the category, for preferences and filters')
    .option('--topic <name>', 'the topic')
    .option('--data <json>', 'custom attributes, a JSON object')
    .option('--file <path>', 'read the broadcast as JSON from a file')
    .option('--wait', 'wait until it is processed, and report the result')
    .addOption(timeout('60s', 60_000))
    .addOption(server())
    .addOption(projectJwt())
    .addOption(json())
    .action(verb(async () => (await import('./send.ts')).send));

  command(
    belfry,
    'status',
    'belfry status 0197a3c4-5b6e-7f01-8a2b-3c4d5e6f7081',
    'belfry status 0197a3c4-5b6e-7f01-8a2b-3c4d5e6f7081 --follow',
  )
    .description('show the delivery status of a broadcast, in total and by channel')
    .argument('<broadcast id>', 'its id, as belfry send prints it')
    .option('--follow', 'wait until it is processed')
    .addOption(timeout('10m', 600_000))
    .addOption(server())
    .addOption(projectJwt())
    .addOption(json())
    .action(verb(async () => (await import('./status.ts')).status));

  command(
    belfry,
    'events',
    'belfry events --limit 50',
    'belfry events --follow --type delivery.failed --type broadcast.processed --json',
  )
    .description('show the last events of the project, or follow them')
    .option('--type <type>', 'a type, or a family such as delivery.*; may be repeated', collect, [])
    .option('--follow', 'show new events until Ctrl-C')
    .option('--after <event id>', 'with --follow: start after this event')
    .addOption(
      new Option('--limit <number>', 'without --follow: the number of events')
        .argParser(parseCount)
        .default(20),
    )
    .addOption(server())
    .addOption(projectJwt())
    .addOption(new Option('--json', 'print each event as a line of JSON'))
    .action(verb(async () => (await import('./events.ts')).events));

  command(belfry, 'listen', 'belfry listen ada', 'belfry listen ada@example.com --json')
    .description("show changes of a user's inbox as they happen")
    .addArgument(new Argument('<user>', 'an external id or an e-mail address').argParser(parseUserName))
    .addOption(server())
    .option('--jwt <token>', 'a User JWT (belfry token user), instead of <DATA_DIR>/credentials.json')
    .addOption(new Option('--json', 'print each frame as a line of JSON'))
    .action(verb(async () => (await import('./listen.ts')).listen));

  const users = command(belfry, 'users', 'belfry users import users.csv').description('import users');
  command(users, 'import', 'belfry users import users.csv', 'belfry users import users.ndjson --json')
    .description('create or update the users in a file, through the running server')
    .argument('<file>', 'a .csv with a header, .json, .ndjson or .jsonl')
    .addOption(server())
    .addOption(projectJwt())
    .addOption(json())
    .action(verb(async () => (await import('./import-users.ts')).importUsers));
}

function workflowCommands(belfry: Command): void {
  const workflow = command(belfry, 'workflow', 'belfry workflow push workflows').description(
    'keep workflows in files, and run them',
  );
  const folder = () => new Argument('[folder]', 'a .json file for each workflow').default('workflows');
  command(workflow, 'pull', 'belfry workflow pull', 'belfry workflow pull deploy/workflows')
    .description('write the workflows of the project to files')
    .addArgument(folder())
    .option('--force', 'replace files that differ from the project')
    .addOption(server())
    .addOption(projectJwt())
    .addOption(json())
    .action(verb(async () => (await import('./workflow-pull.ts')).pullWorkflows));
  command(
    workflow,
    'push',
    'belfry workflow push --dry-run',
    'belfry workflow push deploy/workflows --prune --yes',
  )
    .description('save the workflows of a folder, after showing what would change')
    .addArgument(folder())
    .option('--dry-run', 'only show what would change')
    .option('--yes', 'write without a question, as scripts must')
    .option('--prune', 'delete workflows that are not in the folder')
    .addOption(server())
    .addOption(projectJwt())
    .addOption(json())
    .action(verb(async () => (await import('./workflow-push.ts')).pushWorkflows));
  command(
    workflow,
    'run',
    'belfry workflow run onboarding --input \'{"user":{"external_id":"42"}}\' --follow',
  )
    .description('start a run')
    .argument('<key>', 'the key of the workflow')
    .option('--input <json>', 'the input, a JSON object')
    .option('--follow', 'show its steps until it has ended')
    .addOption(timeout('10m', 600_000))
    .addOption(server())
    .addOption(projectJwt())
    .addOption(json())
    .action(verb(async () => (await import('./workflow-run.ts')).runWorkflow));
  const runs = command(
    workflow,
    'runs',
    'belfry workflow runs onboarding --state failed',
    'belfry workflow runs show 0197a3c4-5b6e-7f01-8a2b-3c4d5e6f7081',
  ).description('list the runs of a workflow, or show one');
  runs
    .command('list', { isDefault: true })
    .addHelpText('after', examples('belfry workflow runs list onboarding --limit 50'))
    .description('list the newest runs of a workflow; "list" may be left out')
    .argument('<key>', 'the key of the workflow')
    .addOption(new Option('--state <state>', 'only runs in this state').choices(RUN_STATE_NAMES))
    .addOption(new Option('--limit <number>', 'the number of runs').argParser(parseCount).default(20))
    .addOption(server())
    .addOption(projectJwt())
    .addOption(json())
    .action(verb(async () => (await import('./workflow-runs.ts')).listRunsCommand));
  command(runs, 'show', 'belfry workflow runs show 0197a3c4-5b6e-7f01-8a2b-3c4d5e6f7081')
    .description('show a run with its steps')
    .argument('<run id>', 'its id, as belfry workflow run prints it')
    .addOption(server())
    .addOption(projectJwt())
    .addOption(json())
    .action(verb(async () => (await import('./workflow-runs.ts')).showRunCommand));
}

const RUN_STATE_NAMES = ['enqueued', 'running', 'waiting', 'completed', 'aborted', 'failed'];

function projectCommands(belfry: Command): void {
  const project = command(belfry, 'project', 'belfry project list').description(
    'create, list and move projects, and manage their keys and limits',
  );
  command(project, 'create', 'belfry project create shop', 'belfry project create shop --cell eu')
    .description('create a project and print its keys, once')
    .argument('<name>')
    .option('--cell <name>', 'the cell to create it in (default: public)')
    .addOption(json())
    .action(verb(async () => (await import('./project.ts')).createProjectCommand));
  command(project, 'list', 'belfry project list --json')
    .description('list the projects')
    .addOption(json())
    .action(verb(async () => (await import('./project.ts')).listProjectsCommand));
  command(project, 'move', 'belfry project move shop --to eu', 'belfry project move shop --cancel')
    .description('move a project to another cell while it is in use, or continue that')
    .argument('<project>', 'its name or id')
    .option('--to <cell>', 'the cell to move it to')
    .option('--cancel', 'end a move that was interrupted, if the project has not left its cell')
    .addOption(json())
    .action(verb(async () => (await import('./move-project.ts')).moveProjectCommand));
  const limit = (name: string) =>
    new Option(
      `--${name} <number>`,
      `${name} per minute and credential: 0 for no limit, "default" for that of the server`,
    ).argParser(parseLimit);
  command(project, 'limits', 'belfry project limits shop --reads 1000 --writes default')
    .description('show or change the rate limits of a project')
    .argument('[project]', 'its name or id; optional if there is only one')
    .addOption(limit('reads'))
    .addOption(limit('writes'))
    .addOption(json())
    .action(verb(async () => (await import('./limits.ts')).limitsCommand));
  command(project, 'hmac', 'belfry project hmac required --project shop')
    .description('require or do not require an HMAC of the users of the v1 API')
    .addArgument(new Argument('<need>', 'new projects require it').choices(['required', 'optional']))
    .addOption(ofProject())
    .addOption(json())
    .action(verb(async () => (await import('./hmac.ts')).hmacCommand));
  keyCommands(project);
}

function keyCommands(project: Command): void {
  const keys = command(project, 'keys', 'belfry project keys list').description(
    'list and roll the API secret and the signing key of a project',
  );
  command(keys, 'list', 'belfry project keys list --project shop')
    .description('list the keys with their validity and last use')
    .addOption(ofProject())
    .addOption(json())
    .action(verb(async () => (await import('./keys.ts')).listKeysCommand));
  command(
    keys,
    'roll',
    'belfry project keys roll api-secret --project shop --overlap 24h',
    'belfry project keys roll signing-key --overlap 0',
  )
    .description('create a new key; the former one stays valid for the overlap')
    .addArgument(
      new Argument('<key>', 'API secret: for User JWTs; signing key: for Project JWTs and links').choices([
        'api-secret',
        'signing-key',
      ]),
    )
    .addOption(
      new Option(
        '--overlap <duration>',
        'how long former keys stay valid, such as 24h or 7d; 0 ends them at once',
      )
        .argParser(parseOverlap)
        .default(86_400_000, '24h'),
    )
    .addOption(ofProject())
    .addOption(json())
    .action(verb(async () => (await import('./keys.ts')).rollKeyCommand));
  command(keys, 'remove', 'belfry project keys remove 3f1a90c2b7de --project shop')
    .description('remove a key that has ended; links in messages that it signed stop working')
    .argument('<id>', 'its id, from project keys list')
    .addOption(ofProject())
    .addOption(json())
    .action(verb(async () => (await import('./keys.ts')).removeKeyCommand));
}

function tokenCommands(belfry: Command): void {
  const token = command(belfry, 'token', 'belfry token list').description('issue, list and revoke tokens');
  command(token, 'issue', 'belfry token issue --project shop --name billing --expires 90d')
    .description('issue a Project JWT and print it, once')
    .addOption(ofProject())
    .addOption(
      new Option('--name <name>', 'a name for the list of tokens').argParser(parseName).makeOptionMandatory(),
    )
    .addOption(expires('never'))
    .addOption(json())
    .action(verb(async () => (await import('./token.ts')).issueTokenCommand));
  command(token, 'list', 'belfry token list --project shop')
    .description('list the issued Project JWTs')
    .addOption(ofProject())
    .addOption(json())
    .action(verb(async () => (await import('./token.ts')).listTokensCommand));
  command(token, 'revoke', 'belfry token revoke 5f0c1d7e-6f0b-4c59-8a4e-2f1f6d1f9a3b')
    .description('revoke a Project JWT: running servers reject it at once')
    .argument('<jti>', 'its id, from token list')
    .addOption(json())
    .action(verb(async () => (await import('./token.ts')).revokeTokenCommand));
  command(token, 'user', 'belfry token user --external-id ada --expires 12h')
    .description('sign a User JWT, for tests of the inbox')
    .addOption(ofProject())
    .option('--external-id <id>', "the user's id in your system")
    .option('--email <address>', "the user's e-mail address")
    .addOption(expires('1h'))
    .addOption(json())
    .action(verb(async () => (await import('./token.ts')).userTokenCommand));
}

function databaseCommands(belfry: Command): void {
  command(belfry, 'doctor', 'belfry doctor')
    .description('check settings, data, database, network and the running server, and report problems')
    .addOption(json())
    .action(verb(async () => (await import('./doctor.ts')).doctor));

  command(belfry, 'migrate', 'belfry migrate --dry-run', 'belfry migrate')
    .description('migrate the database to the schema of this release')
    .option('--dry-run', 'only show what would run; exit code 1 if running servers do not allow it')
    .addOption(json())
    .action(verb(async () => (await import('./migrate.ts')).migrateCommand));

  const cell = command(belfry, 'cell', 'belfry cell list').description(
    'add, change, list and remove cells, which store projects apart from others',
  );
  command(
    cell,
    'add',
    'belfry cell add eu',
    "belfry cell add us --database-url 'postgres://belfry@db2.example.com/belfry'",
    'belfry cell add asia --distribute',
  )
    .description('create the tables of a cell: in a schema of its own, or in another database')
    .argument('<name>', 'letters, digits and _')
    .option('--database-url <url>', 'its database, if it is not that of DATABASE_URL; stored encrypted')
    .option('--direct-url <url>', 'the same database without its connection pooler')
    .option('--distribute', 'store it on a worker of Citus')
    .addOption(json())
    .action(verb(async () => (await import('./cell.ts')).addCellCommand));
  command(cell, 'set', "belfry cell set us --database-url 'postgres://belfry@db3.example.com/belfry'")
    .description('change how the database of a cell is reached; it must have all projects of the cell')
    .argument('<name>')
    .requiredOption('--database-url <url>', 'its database; stored encrypted')
    .option('--direct-url <url>', 'the same database without its connection pooler')
    .addOption(json())
    .action(verb(async () => (await import('./cell.ts')).setCellCommand));
  command(cell, 'list', 'belfry cell list --json')
    .description('list the cells')
    .addOption(json())
    .action(verb(async () => (await import('./cell.ts')).listCellsCommand));
  command(cell, 'rebalance', 'belfry cell rebalance')
    .description(
      'move cells between the workers of Citus until these have equal loads; the cells stay in use',
    )
    .addOption(json())
    .action(verb(async () => (await import('./cell-workers.ts')).rebalanceCellsCommand));
  command(cell, 'remove', 'belfry cell remove eu', 'belfry cell remove us --lost')
    .description('remove a cell without projects from the directory; its tables remain')
    .argument('<name>')
    .option('--lost', 'remove a cell whose database is lost for ever, with its projects')
    .option('--yes', 'with --lost: remove without a question, as scripts must')
    .addOption(json())
    .action(verb(async () => (await import('./cell.ts')).removeCellCommand));
  command(cell, 'index', 'belfry cell index')
    .description('enter the projects of all cells into the directory, after an older directory was restored')
    .addOption(json())
    .action(verb(async () => (await import('./cell.ts')).indexCellsCommand));

  command(belfry, 'reseal', 'belfry reseal')
    .description('encrypt all secrets with the first key of SECRET_KEY, so that older ones can be removed')
    .addOption(json())
    .action(verb(async () => (await import('./reseal.ts')).resealCommand));

  command(belfry, 'backup', 'belfry backup belfry.backup')
    .description('write the whole database into a file')
    .argument('<file>')
    .option('--force', 'replace the file if it exists')
    .addOption(json())
    .action(verb(async () => (await import('./backup.ts')).backupCommand));

  command(belfry, 'restore', 'belfry restore belfry.backup')
    .description('restore a backup into an empty database')
    .argument('<file>')
    .addOption(json())
    .action(verb(async () => (await import('./restore.ts')).restoreCommand));
}

function repositoryCommands(belfry: Command): void {
  command(belfry, 'openapi', 'belfry openapi > openapi.json')
    .description('print the OpenAPI description of the API')
    .action(verb(async () => (await import('./openapi.ts')).openapi));

  belfry
    .command('generate', { hidden: true })
    .description('write the generated files of the repository')
    .option('--check', 'only list those that are out of date')
    .action(verb(async () => (await import('./generate.ts')).generate));
}

/**
 * Rejects blank values: they come from an empty variable of a shell, and would name a token with nothing, or
 * choose another project than was meant.
 */
function rejectBlanks(command: Command): void {
  const isBlank = (value: unknown) =>
    [value].flat().some((one) => typeof one === 'string' && one.trim() === '');
  for (const option of command.options) {
    // Other parsers reject blanks themselves. For their results, commander has '' instead of null.
    const isText = option.parseArg === undefined || option.parseArg === collect;
    if (!isText || BLANK_ALLOWED.has(option.long ?? '')) continue;
    if (isBlank(command.getOptionValue(option.attributeName())))
      command.error(`error: option '${option.flags}' is blank`);
  }
  command.registeredArguments.forEach((argument, at) => {
    if (isBlank(command.processedArgs[at])) command.error(`error: argument '${argument.name()}' is blank`);
  });
}

// A broadcast may have an empty content.
const BLANK_ALLOWED: ReadonlySet<string> = new Set(['--content']);

/** Creates a command whose help ends with examples. */
function command(parent: Command, name: string, ...lines: [string, ...string[]]): Command {
  return parent.command(name).addHelpText('after', examples(...lines));
}

function examples(...lines: [string, ...string[]]): string {
  const head = lines.length === 1 ? 'Example:' : 'Examples:';
  return ['', head, ...lines.map((line) => `  $ ${line}`)].join('\n');
}

const timeout = (standard: string, ms: number) =>
  new Option('--timeout <duration>', 'how long to wait, such as 90s or 5m')
    .argParser(parseDuration)
    .default(ms, standard);
const json = () => new Option('--json', 'print JSON, for scripts');
const ofProject = () => new Option('--project <name or id>', 'the project; optional if there is only one');
const server = () =>
  new Option('--url <address>', 'the server, by default that of <DATA_DIR>/credentials.json');
const projectJwt = () =>
  new Option('--jwt <token>', 'the Project JWT, by default that of <DATA_DIR>/credentials.json');
const expires = (standard: string) =>
  new Option('--expires <when>', 'when it expires: 30d, 12h, 2027-01-31 or never')
    .argParser(parseExpiry)
    .default(parseExpiry(standard), standard);

/** Loads the file of a command when it runs: loading the server would delay the others by half a second. */
function verb<Args extends unknown[]>(load: () => Promise<(...args: Args) => Promise<void>>) {
  return (...args: Args) => reportErrors(async () => (await load())(...args));
}

function collect(value: string, before: string[]): string[] {
  return [...before, value];
}

import { readFileSync } from 'node:fs';
import { Argument, Command, CommanderError, Option } from 'commander';
import { reportErrors } from './cli/command.ts';
import { parseDuration, parseExpiry } from './cli/expiry.ts';
import { parseLimit } from './cli/parse-limit.ts';
import { parseUserName } from './cli/user-name.ts';

// The command line, as a table of contents: each verb has a file in cli/.
const belfry = new Command('belfry')
  .description(
    'A self-hosted notification delivery service. Settings come from the environment: see docs/reference/settings.md.',
  )
  .version(version(), '--version', 'print the release')
  .helpOption('-h, --help', 'explain the command')
  .helpCommand('help [command]', 'explain a command')
  .showHelpAfterError('(add --help for an explanation)')
  .exitOverride();

const json = () => new Option('--json', 'print JSON, for scripts');
const ofProject = () => new Option('--project <name or id>', 'which project').makeOptionMandatory();
const expires = (standard: string) =>
  new Option(
    '--expires <when>',
    // A default that is a value is told by commander itself.
    `until when it is valid: 30d, 12h, 2027-01-31 or never${standard === 'never' ? ' (default)' : ''}`,
  )
    .argParser(parseExpiry)
    .default(parseExpiry(standard), standard);
const server = () =>
  new Option('--url <address>', 'the server, if not the one of <DATA_DIR>/credentials.json');

belfry
  .command('start')
  .description('run the server, with the embedded database unless DATABASE_URL names another')
  .action(verb(async () => (await import('./cli/start.ts')).start));

belfry
  .command('send')
  .description('send a broadcast through the running server, from flags or as JSON')
  .argument('[body]', '"-" to read the broadcast as JSON from standard input')
  .option('--to <user>', 'an external id or an e-mail address; may be repeated', collect, [])
  .option('--title <text>', 'the title')
  .option('--content <text>', 'the content: HTML or plain text')
  .option('--action-url <url>', 'where a click leads')
  .option('--category <name>', 'the category, for preferences and filters')
  .option('--topic <name>', 'the topic')
  .option('--data <json>', 'custom attributes, a JSON object')
  .option('--file <path>', 'read the broadcast as JSON from a file')
  .option('--wait', 'wait until it is processed, and tell how it went')
  .addOption(
    new Option('--timeout <duration>', 'how long to wait, as 90s or 5m')
      .argParser(parseDuration)
      .default(60_000, '60s'),
  )
  .addOption(server())
  .option('--jwt <token>', 'the Project JWT, if not the one of <DATA_DIR>/credentials.json')
  .addOption(json())
  .action(verb(async () => (await import('./cli/send.ts')).send));

belfry
  .command('listen')
  .description("show what arrives in a user's inbox, as it happens")
  .addArgument(new Argument('<user>', 'an external id or an e-mail address').argParser(parseUserName))
  .addOption(server())
  .option('--jwt <token>', 'a User JWT (belfry token user), if <DATA_DIR>/credentials.json is not at hand')
  .addOption(new Option('--json', 'print each frame as a line of JSON'))
  .action(verb(async () => (await import('./cli/listen.ts')).listen));

const project = belfry.command('project').description('make and list projects');
project
  .command('create')
  .description('make a project and print its keys, once')
  .argument('<name>')
  .addOption(json())
  .action(verb(async () => (await import('./cli/project.ts')).createProjectCommand));
project
  .command('list')
  .description('list the projects')
  .addOption(json())
  .action(verb(async () => (await import('./cli/project.ts')).listProjectsCommand));
const limit = (name: string) =>
  new Option(
    `--${name} <number>`,
    `${name} per minute and credential: 0 for no limit, "default" for the server's`,
  ).argParser(parseLimit);
project
  .command('limits')
  .description('show the rate limits of a project, or give it limits of its own')
  .argument('<project>', 'its name or id')
  .addOption(limit('reads'))
  .addOption(limit('writes'))
  .addOption(json())
  .action(verb(async () => (await import('./cli/limits.ts')).limitsCommand));

const token = belfry.command('token').description('issue, list and revoke tokens');
token
  .command('issue')
  .description('issue a Project JWT and print it, once')
  .addOption(ofProject())
  .requiredOption('--name <name>', 'what it is for, to tell it from others')
  .addOption(expires('never'))
  .addOption(json())
  .action(verb(async () => (await import('./cli/token.ts')).issueTokenCommand));
token
  .command('list')
  .description('list the Project JWTs that were issued')
  .addOption(ofProject())
  .addOption(json())
  .action(verb(async () => (await import('./cli/token.ts')).listTokensCommand));
token
  .command('revoke')
  .description('revoke a Project JWT: running servers refuse it at once')
  .argument('<jti>', 'its id, from token list')
  .addOption(json())
  .action(verb(async () => (await import('./cli/token.ts')).revokeTokenCommand));
token
  .command('user')
  .description('sign a User JWT, to try the inbox with')
  .addOption(ofProject())
  .option('--external-id <id>', "the user's id in your system")
  .option('--email <address>', "the user's e-mail address")
  .addOption(expires('1h'))
  .addOption(json())
  .action(verb(async () => (await import('./cli/token.ts')).userTokenCommand));

belfry
  .command('doctor')
  .description('check settings, data, database, network and the running server, and say what is wrong')
  .addOption(json())
  .action(verb(async () => (await import('./cli/doctor.ts')).doctor));

belfry
  .command('migrate')
  .description('bring the database to the schema of this release')
  .action(verb(async () => (await import('./cli/migrate.ts')).migrateCommand));

belfry
  .command('backup')
  .description('write everything in the database into a file')
  .argument('<file>')
  .action(verb(async () => (await import('./cli/backup.ts')).backupCommand));

belfry
  .command('restore')
  .description('read a backup into an empty database')
  .argument('<file>')
  .action(verb(async () => (await import('./cli/restore.ts')).restoreCommand));

belfry
  .command('openapi')
  .description('print the OpenAPI description of the API')
  .action(verb(async () => (await import('./cli/openapi.ts')).openapi));

belfry
  .command('generate', { hidden: true })
  .description('write the files of the repository that are made from code')
  .option('--check', 'only name those that are not up to date')
  .action(verb(async () => (await import('./cli/generate.ts')).generate));

try {
  await belfry.parseAsync();
} catch (error) {
  if (!(error instanceof CommanderError)) throw error;
  process.exitCode = error.exitCode === 0 ? 0 : 2; // asked for help, or used wrongly: commander has said it
}

/** An action whose file is loaded when it is called: what the server needs would cost every other command half a second. */
function verb<Args extends unknown[]>(load: () => Promise<(...args: Args) => Promise<void>>) {
  return (...args: Args) => reportErrors(async () => (await load())(...args));
}

function collect(value: string, before: string[]): string[] {
  return [...before, value];
}

function version(): string {
  const text = readFileSync(new URL('../package.json', import.meta.url), 'utf8');
  return (JSON.parse(text) as { version: string }).version;
}

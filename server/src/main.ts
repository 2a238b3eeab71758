import { Command } from 'commander';
import { reportErrors } from './cli/command.ts';
import { generate } from './cli/generate.ts';
import { start } from './cli/start.ts';

// The command line, as a table of contents: each verb has a file in cli/.
const belfry = new Command('belfry')
  .description(
    'A self-hosted notification delivery service. Settings come from the environment: see docs/reference/settings.md.',
  )
  .showHelpAfterError();

belfry
  .command('start')
  .description('run the server, with the embedded database unless DATABASE_URL names another')
  .action(() => reportErrors(start));

belfry
  .command('generate', { hidden: true })
  .description('write openapi.json and the reference pages of this repository from the code')
  .option('--check', 'only say which are out of date')
  .action((options: { check?: boolean }) => reportErrors(() => generate(options)));

await belfry.parseAsync();

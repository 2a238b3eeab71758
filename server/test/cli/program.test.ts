import type { Command } from 'commander';
import { expect, test } from 'vitest';
import { createProgram } from '../../src/cli/program.ts';

/** Every command that help lists, as its words. */
function commandsOf(command: Command, words: string[] = []): { command: Command; words: string[] }[] {
  const below = command.createHelp().visibleCommands(command);
  const own = below.filter((one) => one.name() !== 'help');
  return [{ command, words }, ...own.flatMap((one) => commandsOf(one, [...words, one.name()]))];
}

function helpOf(command: Command): string {
  let help = '';
  command.configureOutput({
    writeOut: (text) => {
      help += text;
    },
  });
  command.outputHelp();
  return help;
}

/** The arguments of a line as a shell splits it, without redirections. */
function argumentsOf(line: string): string[] {
  const [own = ''] = line.split(/ [<>|] /);
  return [...own.matchAll(/'([^']*)'|(\S+)/g)].map(([, quoted, plain]) => quoted ?? plain ?? '');
}

/** Parses the arguments as the command line does. Returns the words of the command that would run. */
async function parse(args: readonly string[]): Promise<string[]> {
  const program = createProgram();
  let called: string[] = [];
  for (const { command, words } of commandsOf(program)) {
    command.exitOverride().configureOutput({ writeOut: () => {}, writeErr: () => {} });
    if (command.commands.length > 0) continue;
    command.action(() => {
      called = words;
    });
  }
  try {
    await program.parseAsync(args, { from: 'user' });
  } catch (error) {
    if ((error as { code?: string }).code !== 'commander.help') throw error;
    called = args.slice(1);
  }
  return called;
}

const all = commandsOf(createProgram()).map(({ words }) => words);

test('no command has disappeared', () => {
  expect(all.length).toBeGreaterThan(20);
});

test.each(all.map((words) => ['belfry', ...words].join(' ')))(
  '%s --help has examples that parse',
  async (name) => {
    const words = name.split(' ').slice(1);
    const found = commandsOf(createProgram()).find((one) => one.words.join(' ') === words.join(' '));
    if (found === undefined) throw new Error(`no ${name}`);
    const [, examples = ''] = helpOf(found.command).split(/\nExamples?:\n/);
    const lines = examples.trimEnd().split('\n');
    expect(lines[0]).not.toBe('');
    for (const line of lines) {
      expect(line).toMatch(/^ {2}\$ belfry /);
      const [, ...args] = argumentsOf(line.slice(4));
      expect((await parse(args)).slice(0, words.length), line).toEqual(words);
    }
  },
);

test('every command with a result can print JSON', () => {
  const without = commandsOf(createProgram()).filter(
    ({ command }) => command.commands.length === 0 && !command.options.some(({ long }) => long === '--json'),
  );
  // 'openapi' prints nothing else than JSON; 'start' has no result.
  expect(without.map(({ words }) => words.join(' '))).toEqual(['start', 'openapi']);
});

const BLANK_ALLOWED = ['--content']; // of a broadcast

const valued = commandsOf(createProgram()).flatMap(({ command, words }) => {
  const needed = command.registeredArguments.map(({ argChoices }) => argChoices?.[0] ?? '1');
  const required = command.options
    .filter(({ mandatory }) => mandatory)
    .flatMap(({ long = '' }) => [long, '1']);
  const options = command.options.filter(
    ({ required, long = '' }) => required && !BLANK_ALLOWED.includes(long),
  );
  return [
    ...options.map(({ long = '' }) => [...words, ...needed, ...required, long]),
    ...needed.map((_, at) => [...words, ...needed.slice(0, at)]),
  ].filter(() => command.commands.length === 0);
});

test.each(valued.map((words) => [words.join(' '), words]))(
  'belfry %s "" is wrong usage',
  async (_, words) => {
    for (const blank of ['', ' '])
      await expect(parse([...(words as string[]), blank])).rejects.toMatchObject({
        exitCode: expect.any(Number),
      });
  },
);

test('a wrong example is detected', async () => {
  await expect(parse(['token', 'list', '--nmae'])).rejects.toThrow('--nmae');
  await expect(parse(['token', 'user', '--expires', 'soon'])).rejects.toThrow('30d');
});

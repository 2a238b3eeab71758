import { spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { SETTINGS } from '../config.ts';
import { allErrors } from '../errors.ts';
import { openapiDocument } from '../http/openapi-document.ts';
import { eventsPage } from './reference/events-page.ts';
import { code, page, table } from './reference/markdown.ts';
import { providerPages } from './reference/provider-pages.ts';

const root = fileURLToPath(new URL('../../../', import.meta.url));

/**
 * Writes every file of the repository that is made from code and prints those that were out of date. With
 * `check` it writes nothing, and the process ends with exit code 1 if there are any.
 */
export async function generate({ check = false }: { check?: boolean }): Promise<void> {
  const document = await openapiDocument();
  const files: Record<string, string> = {
    'openapi.json': `${JSON.stringify(document, null, 2)}\n`,
    'docs/reference/settings.md': settingsPage(),
    'docs/reference/errors.md': errorsPage(),
    'docs/reference/events.md': eventsPage(),
    ...Object.fromEntries(
      Object.entries(await providerPages()).map(([name, text]) => [
        `docs/reference/providers/${name}.md`,
        text,
      ]),
    ),
  };
  for (const [path, text] of Object.entries(files)) {
    if (read(join(root, path)) === text) continue;
    console.log(check ? `${path} is out of date: run "npm run generate"` : path);
    if (check) process.exitCode = 1;
    else write(join(root, path), text);
  }
  // The SDK is generated with development tools, so a program of its own does it.
  const generator = [join(root, 'sdk/generator/main.ts'), ...(check ? ['--check'] : [])];
  if (spawnSync(process.execPath, generator, { stdio: 'inherit' }).status !== 0) process.exitCode = 1;
}

function settingsPage(): string {
  const rows = Object.entries(SETTINGS).map(([name, setting]) => {
    const standard = setting.default === '' ? '' : code(setting.default);
    return [code(name), standard, setting.help];
  });
  return page(
    'Settings',
    'Settings are environment variables. One that is malformed, or whose name is nearly that of a setting, is named at start.',
    table(['Setting', 'Default', 'Meaning'], rows),
  );
}

function errorsPage(): string {
  const rows = allErrors().map(({ code: name, status, message }) => [
    code(name),
    String(status),
    message.replaceAll('<', '\\<'),
  ]);
  return page(
    'Errors',
    'Every answer that is not a success is `{"errors": [{"code", "message"}, …]}` and names all problems at once. A `message` may be more exact than the one below; the `code` is what programs go by.',
    table(['Code', 'Status', 'Message'], rows),
  );
}

function read(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return undefined; // not made yet, which is as stale as it gets
  }
}

function write(path: string, text: string): void {
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, text);
}

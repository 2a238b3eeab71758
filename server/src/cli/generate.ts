import { spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { SETTINGS } from '../config.ts';
import { EVENT_MEANINGS } from '../contract/event.ts';
import { allErrors } from '../errors.ts';
import { schemaText } from '../http/graphql/schema.ts';
import { openapiDocuments } from '../http/openapi/document.ts';
import { code, page, table } from './reference/markdown.ts';
import { providerPages } from './reference/provider-pages.ts';

const root = fileURLToPath(new URL('../../../', import.meta.url));

/**
 * Writes the generated files of the repository, and prints those that were out of date. With `check` it
 * writes nothing, and the exit code is 1 if there are any.
 */
export async function generate({ check = false }: { check?: boolean }): Promise<void> {
  const { v1, v2 } = await openapiDocuments();
  const files: Record<string, string> = {
    'openapi.json': `${JSON.stringify(v2, null, 2)}\n`,
    'openapi-v1.json': `${JSON.stringify(v1, null, 2)}\n`,
    'schema.graphql': schemaText(),
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
    'Settings are environment variables. ' +
      'The start fails for an invalid value, and for a name that is nearly that of a setting.',
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
    'Every error response is `{"errors": [{"code", "message"}, …]}` and lists all problems of the request. ' +
      'A `message` may be more specific than the one below. Programs should use the `code`.',
    table(['Code', 'Status', 'Message'], rows),
  );
}

function eventsPage(): string {
  const rows = Object.entries(EVENT_MEANINGS).map(([type, meaning]) => [code(type), meaning]);
  return page(
    'Events',
    'Everything that happens in a project is recorded as an event of one of these types. ' +
      '`GET /v2/events` lists events; the [stream and webhooks](../guides/webhooks.md) deliver them. ' +
      'A filter accepts types, separated by commas, and families such as `delivery.*`.',
    table(['Type', 'Meaning'], rows),
  );
}

function read(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return undefined; // missing, so out of date
  }
}

function write(path: string, text: string): void {
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, text);
}

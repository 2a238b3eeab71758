// Runs the program of each language in docs/authentication.md, if the language is installed.
import { execFile, spawnSync } from 'node:child_process';
import { createSecretKey } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { readIssuer, readUserClaims } from '../../src/http/claims.ts';
import { signJwt, verifyJwt } from '../../src/lib/jwt.ts';
import { PATIENCE_MS } from '../support/patience.ts';
import { startTestService, type TestService } from '../support/service.ts';

const page = readFileSync(new URL('../../../docs/authentication.md', import.meta.url), 'utf8');

const node = process.execPath;
/** The language, its code block, the file, a command that succeeds if it is installed, and the program. */
const programs = [
  ['JavaScript', 'js', 'user-token.mjs', [node, '--version'], [node, 'user-token.mjs']],
  ['Python', 'python', 'user_token.py', ['python3', '--version'], ['python3', 'user_token.py']],
  ['PHP', 'php', 'user-token.php', ['php', '--version'], ['php', 'user-token.php']],
  ['Go', 'go', 'user-token.go', ['go', 'version'], ['go', 'run', 'user-token.go']],
  ['Ruby', 'ruby', 'user_token.rb', ['ruby', '--version'], ['ruby', 'user_token.rb']],
  // `java` compiles the file, so it needs a JDK, which has javac.
  ['Java', 'java', 'UserToken.java', ['javac', '-version'], ['java', 'UserToken.java']],
  // In a project, because only .NET 10 and newer run a single file.
  ['C#', 'csharp', 'Program.cs', ['dotnet', '--version'], ['dotnet', 'run', '--']],
] as const;

/** The example of the page. */
const example = { apiKey: 'pk_example', apiSecret: 'sk_example', externalId: '42', now: 1_767_225_600 };
const exampleToken = await signJwt(
  {
    api_key: example.apiKey,
    user_external_id: example.externalId,
    iat: example.now,
    exp: example.now + 3600,
  },
  createSecretKey(Buffer.from(example.apiSecret)),
);
// Characters that JSON or libraries escape.
const awkwardId = (language: string) => `${language} "a" \\b /c <d> & 'e' + f`;

let it: TestService;
const folders: string[] = [];
beforeAll(async () => {
  it = await startTestService();
});
afterAll(async () => {
  for (const folder of folders) rmSync(folder, { recursive: true, force: true });
  await it.stop();
});

test('the example of the page is the token that Belfry issues and accepts', async () => {
  const [, shown = ''] = /^```text\n(.*?)^```/ms.exec(page) ?? [];
  expect(shown.replaceAll(/\s/g, '')).toBe(exampleToken);
  expect(page).toContain(`export BELFRY_API_KEY=${example.apiKey} BELFRY_API_SECRET=${example.apiSecret}`);
  expect(page).toContain(`node user-token.mjs ${example.externalId} ${example.now}`);
  const key = createSecretKey(Buffer.from(example.apiSecret));
  const verdict = await verifyJwt(exampleToken, key, (example.now + 3599) * 1000);
  if (!verdict.ok) throw new Error(verdict.reason);
  expect(readIssuer(verdict.claims)).toEqual({ apiKey: example.apiKey });
  expect(readUserClaims(verdict.claims)).toEqual({ externalId: example.externalId });
});

for (const [language, fence, file, [probe, ...flags], command] of programs) {
  const { status, stdout: version } = spawnSync(probe, flags, { encoding: 'utf8' });
  const reason = status === 0 ? '' : ` (not run: ${probe} is not installed)`;
  test.skipIf(reason !== '')(
    `the ${language} program issues the same token, and one that Belfry accepts${reason}`,
    async () => {
      const folder = write(fence, file, version);
      const printed = await run(command, folder, example, [example.externalId, String(example.now)]);
      expect(printed).toBe(exampleToken);
      const externalId = awkwardId(language);
      const token = await run(command, folder, it.project, [externalId]);
      const asUser = await it.request('GET', '/v2/notifications/unread/count', { token });
      expect([asUser.status, asUser.messages]).toEqual([200, []]);
      const query = new URLSearchParams({ query: externalId });
      const found = await it.request('GET', `/v2/users?${query}`, { token: it.project.jwt });
      expect(found.body).toMatchObject({ data: [{ external_id: externalId }] });
    },
    180_000, // a compiler is slow at its first run
  );
}

/** Writes a program of the page into a folder of its own. */
function write(fence: string, file: string, version: string): string {
  const blocks = [...page.matchAll(new RegExp(`^\`\`\`${fence}\\n(.*?)^\`\`\``, 'gms'))];
  expect(blocks).toHaveLength(1);
  const folder = mkdtempSync(join(tmpdir(), 'belfry-user-token-'));
  folders.push(folder);
  writeFileSync(join(folder, file), blocks[0]?.[1] ?? '');
  if (fence === 'csharp') writeFileSync(join(folder, 'user-token.csproj'), dotnetProject(version));
  return folder;
}

function dotnetProject(version: string): string {
  return `<Project Sdk="Microsoft.NET.Sdk">
  <PropertyGroup>
    <OutputType>Exe</OutputType>
    <TargetFramework>net${version.split('.')[0]}.0</TargetFramework>
    <Nullable>enable</Nullable>
    <UseAppHost>false</UseAppHost>
  </PropertyGroup>
</Project>
`;
}

/** Runs a program and returns the last line of its output. */
async function run(
  [program, ...args]: readonly [string, ...string[]],
  folder: string,
  { apiKey, apiSecret }: { apiKey: string; apiSecret: string },
  tokenArgs: string[],
): Promise<string> {
  const { stdout } = await promisify(execFile)(program, [...args, ...tokenArgs], {
    cwd: folder,
    timeout: PATIENCE_MS,
    env: {
      ...process.env,
      BELFRY_API_KEY: apiKey,
      BELFRY_API_SECRET: apiSecret,
      GOTOOLCHAIN: 'local', // no download of another version
      DOTNET_NOLOGO: '1',
      DOTNET_CLI_TELEMETRY_OPTOUT: '1',
    },
  });
  return stdout.trimEnd().split(/\r?\n/).at(-1) ?? '';
}

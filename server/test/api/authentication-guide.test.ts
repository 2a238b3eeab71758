// docs/authentication.md has a program for each language that makes a User JWT. Here each one runs as it is
// printed there, where its language is installed.
import { execFile, spawnSync } from 'node:child_process';
import { createSecretKey } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { readIssuer, readUserClaims } from '../../src/http/claims.ts';
import { signJwt, verifyJwt } from '../../src/lib/jwt.ts';
import { startTestServer, type TestServer } from '../support/http.ts';

const page = readFileSync(new URL('../../../docs/authentication.md', import.meta.url), 'utf8');

interface Sample {
  language: string;
  /** The language of its code block. */
  fence: string;
  file: string;
  /** Succeeds where the language is installed. */
  probe: [string, ...string[]];
  /** Runs the file, which is in the current directory; its arguments follow. */
  run: [string, ...string[]];
}

const samples: Sample[] = [
  {
    language: 'JavaScript',
    fence: 'js',
    file: 'user-token.mjs',
    probe: [process.execPath, '--version'],
    run: [process.execPath, 'user-token.mjs'],
  },
  {
    language: 'Python',
    fence: 'python',
    file: 'user_token.py',
    probe: ['python3', '--version'],
    run: ['python3', 'user_token.py'],
  },
  {
    language: 'PHP',
    fence: 'php',
    file: 'user-token.php',
    probe: ['php', '--version'],
    run: ['php', 'user-token.php'],
  },
  {
    language: 'Go',
    fence: 'go',
    file: 'user-token.go',
    probe: ['go', 'version'],
    run: ['go', 'run', 'user-token.go'],
  },
  {
    language: 'Ruby',
    fence: 'ruby',
    file: 'user_token.rb',
    probe: ['ruby', '--version'],
    run: ['ruby', 'user_token.rb'],
  },
  {
    // `java` compiles the file itself; that needs a JDK, which has javac.
    language: 'Java',
    fence: 'java',
    file: 'UserToken.java',
    probe: ['javac', '-version'],
    run: ['java', 'UserToken.java'],
  },
  {
    // In a project, because only .NET 10 and newer run a file alone.
    language: 'C#',
    fence: 'csharp',
    file: 'Program.cs',
    probe: ['dotnet', '--version'],
    run: ['dotnet', 'run', '--'],
  },
];

/** The values of the page's own example. */
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
// What JSON, and languages that are careful about HTML, write in another way.
const awkwardId = (language: string) => `${language} "a" \\b /c <d> & 'e' + f`;

let it: TestServer;
const folders: string[] = [];
beforeAll(async () => {
  it = await startTestServer();
});
afterAll(async () => {
  for (const folder of folders) rmSync(folder, { recursive: true, force: true });
  await it.close();
});

test("the page's example is the token that Belfry itself makes and accepts", async () => {
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

for (const sample of samples) {
  const [program, ...rest] = sample.probe;
  const { status, stdout: version } = spawnSync(program, rest, { encoding: 'utf8' });
  const reason = status === 0 ? '' : ` (not run: ${program} is not installed)`;
  // The first run of a compiler takes its time.
  test.skipIf(reason !== '')(
    `the ${sample.language} program makes the same token, and one that Belfry accepts${reason}`,
    async () => {
      const folder = write(sample, version);
      expect(await run(sample, folder, example, [example.externalId, String(example.now)])).toBe(
        exampleToken,
      );
      const externalId = awkwardId(sample.language);
      const token = await run(sample, folder, it.project, [externalId]);
      const asUser = await it.call('GET', '/v2/notifications/unread/count', { token });
      expect([asUser.status, asUser.messages]).toEqual([200, []]);
      const query = new URLSearchParams({ query: externalId });
      const found = await it.call('GET', `/v2/users?${query}`, { token: it.project.jwt });
      expect(found.json).toMatchObject({ data: [{ external_id: externalId }] });
    },
    180_000,
  );
}

/** Writes the program of the page into a folder of its own. */
function write({ fence, file }: Sample, version: string): string {
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

/** The last line that the program prints. */
async function run(
  sample: Sample,
  folder: string,
  { apiKey, apiSecret }: { apiKey: string; apiSecret: string },
  given: string[],
): Promise<string> {
  const [program, ...rest] = sample.run;
  const { stdout } = await promisify(execFile)(program, [...rest, ...given], {
    cwd: folder,
    timeout: 90_000,
    env: {
      ...process.env,
      BELFRY_API_KEY: apiKey,
      BELFRY_API_SECRET: apiSecret,
      GOTOOLCHAIN: 'local', // it would download another one
      DOTNET_NOLOGO: '1',
      DOTNET_CLI_TELEMETRY_OPTOUT: '1',
    },
  });
  return stdout.trimEnd().split(/\r?\n/).at(-1) ?? '';
}

import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, describe, expect, test } from 'vitest';
import { CannotOpen, createSealer, loadOrCreateKey } from './seal.ts';

const [first, second] = [randomBytes(32), randomBytes(32)];

describe('a sealed value', () => {
  const sealer = createSealer([first]);
  const sealed = sealer.seal('a secret ✓', 'project:1:api_secret');

  test('opens for its purpose', () => {
    expect(sealer.open(sealed, 'project:1:api_secret').toString()).toBe('a secret ✓');
    expect(sealed.includes('a secret')).toBe(false);
  });

  test('differs each time', () => {
    expect(sealer.seal('x', 'p').equals(sealer.seal('x', 'p'))).toBe(false);
  });

  test('opens for no other purpose, so it cannot be moved', () => {
    expect(() => sealer.open(sealed, 'project:2:api_secret')).toThrow(CannotOpen);
  });

  test('does not open with any of its bits changed or its end cut', () => {
    for (let index = 0; index < sealed.length; index += 1) {
      const changed = Buffer.from(sealed);
      changed[index] = (changed[index] ?? 0) ^ 1;
      expect(() => sealer.open(changed, 'project:1:api_secret'), `byte ${index}`).toThrow(CannotOpen);
    }
    for (const length of [0, 1, 16, sealed.length - 1]) {
      expect(() => sealer.open(sealed.subarray(0, length), 'project:1:api_secret')).toThrow(CannotOpen);
    }
  });

  test('opens after a new key was put before the old one, and the first key seals', () => {
    const rotated = createSealer([second, first]);
    expect(rotated.open(sealed, 'project:1:api_secret').toString()).toBe('a secret ✓');
    expect(createSealer([second]).open(rotated.seal('y', 'p'), 'p').toString()).toBe('y');
  });

  test('names the required key if it is not available', () => {
    const id = sealed.subarray(1, 5).toString('hex');
    expect(() => createSealer([second]).open(sealed, 'project:1:api_secret')).toThrow(
      new RegExp(`with the key ${id}`),
    );
  });
});

describe('the key file', () => {
  const directories: string[] = [];
  const directory = () => {
    const path = mkdtempSync(join(tmpdir(), 'belfry-seal-'));
    directories.push(path);
    return path;
  };
  afterAll(() => {
    for (const path of directories) rmSync(path, { recursive: true });
  });

  test('is created once, readable by its owner only, and read afterwards', () => {
    const dir = join(directory(), 'data');
    const key = loadOrCreateKey(dir);
    expect(key.length).toBe(32);
    expect(loadOrCreateKey(dir).equals(key)).toBe(true);
    expect(statSync(join(dir, 'secret.key')).mode & 0o777).toBe(0o600);
    expect(readdirSync(dir)).toEqual(['secret.key']);
  });

  test('that contains no key is reported, and not overwritten', () => {
    const dir = directory();
    writeFileSync(join(dir, 'secret.key'), 'half a k');
    expect(() => loadOrCreateKey(dir)).toThrow(/does not hold a key/);
    expect(readFileSync(join(dir, 'secret.key'), 'utf8')).toBe('half a k');
  });

  test('is the same for processes that create it concurrently', async () => {
    const dir = directory();
    const module = JSON.stringify(new URL('./seal.ts', import.meta.url).href);
    const script = `const { loadOrCreateKey } = await import(${module});
      process.stdout.write(loadOrCreateKey(${JSON.stringify(dir)}).toString('hex'));`;
    const runs = Array.from({ length: 6 }, () =>
      promisify(execFile)(process.execPath, ['--input-type=module', '-e', script]),
    );
    const keys = (await Promise.all(runs)).map(({ stdout }) => stdout);
    expect(new Set(keys)).toEqual(new Set([readFileSync(join(dir, 'secret.key'), 'utf8').trim()]));
  });
});

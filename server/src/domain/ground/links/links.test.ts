import { createSecretKey } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { newId } from '../../../lib/ids.ts';
import { linksOf, pushClickUrl, readTrackedToken } from './links.ts';

const config = { PUBLIC_URL: 'https://notify.example/base' };
const project = { id: newId(), signingKey: createSecretKey(Buffer.alloc(32, 1)) };
const delivery = { broadcastId: newId(), userId: newId(), channel: 'email' as const };
const both = { opens: true, clicks: true };
const target = 'https://x.example/?a=1';
const link = { target, encoded: encodeURIComponent(target) };
const tokenOf = (url = '') => /\/t\/[co]\/([\w-]+)/.exec(url)?.[1] ?? '';

test('a link names its delivery, and its URL can be read from it', () => {
  const url = linksOf(config, project, both, delivery)?.clickUrl?.(link) ?? '';
  expect(url).toMatch(
    /^https:\/\/notify\.example\/base\/t\/c\/[\w-]{88}\?u=https%3A%2F%2Fx\.example%2F%3Fa%3D1$/,
  );
  const read = readTrackedToken(tokenOf(url));
  expect(read).toMatchObject({ ...delivery, projectId: project.id });
  expect(read?.isSigned(project.signingKey, 'c', target)).toBe(true);
});

test('no links are made if tracking is disabled or the server has no public URL', () => {
  expect(linksOf(config, project, { opens: false, clicks: false }, delivery)).toBeUndefined();
  expect(linksOf({ PUBLIC_URL: undefined }, project, both, delivery)).toBeUndefined();
  expect(linksOf(config, project, { opens: true, clicks: false }, delivery)).not.toHaveProperty('clickUrl');
  expect(linksOf(config, project, { opens: false, clicks: true }, delivery)).not.toHaveProperty('openUrl');
  expect(pushClickUrl(config, project, { opens: true, clicks: false }, delivery)).toBeUndefined();
});

test('a push has a separate link, without a target', () => {
  const url = pushClickUrl(config, project, both, delivery);
  expect(url).toMatch(/^https:\/\/notify\.example\/base\/t\/c\/w[\w-]{87}$/);
  const read = readTrackedToken(tokenOf(url));
  expect(read).toMatchObject({ ...delivery, channel: 'web_push' });
  expect(read?.isSigned(project.signingKey, 'c', '')).toBe(true);
  expect(read?.isSigned(project.signingKey, 'c', target)).toBe(false);
});

describe('a signature is valid for nothing else', () => {
  const links = linksOf(config, project, both, delivery);
  const token = tokenOf(links?.clickUrl?.(link));
  const signed = (given: string, at = target, key = project.signingKey, kind: 'c' | 'o' = 'c') =>
    readTrackedToken(given)?.isSigned(key, kind, at) ?? false;

  test('no other address', () => {
    for (const other of ['', 'https://evil.example/', `${target}2`, target.slice(0, -1), `${target}\0`])
      expect(signed(token, other)).toBe(false);
  });

  test('no other kind, and no other key', () => {
    expect(signed(token, target, project.signingKey, 'o')).toBe(false);
    expect(signed(tokenOf(links?.openUrl?.()), '', project.signingKey, 'o')).toBe(true);
    expect(signed(tokenOf(links?.openUrl?.()), '', project.signingKey, 'c')).toBe(false);
    expect(signed(token, target, createSecretKey(Buffer.alloc(32, 2)))).toBe(false);
  });

  test('no other token: whichever character is changed', () => {
    expect(signed(token)).toBe(true);
    for (let place = 0; place < token.length; place += 1) {
      const other = token[place] === 'A' ? 'B' : 'A';
      expect(signed(token.slice(0, place) + other + token.slice(place + 1))).toBe(false);
    }
    for (const other of ['', 'e', token.slice(1), token.slice(0, -1), `${token}A`, token.replace('e', 'w')])
      expect(signed(other)).toBe(false);
  });
});

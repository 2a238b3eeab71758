import { createSecretKey } from 'node:crypto';
import { expect, test } from 'vitest';
import { linksOf } from '../domain/ground/links/links.ts';
import { preferencesToken, unsubscribeToken } from '../domain/ground/links/signed-links.ts';
import { newId } from '../lib/ids.ts';
import { signJwt } from '../lib/jwt.ts';
import { projectReader } from './named-project.ts';

const read = projectReader('acme');
const projectId = newId();
const key = createSecretKey(Buffer.alloc(32, 1));
const apiKey = 'pk_0123456789abcdef';
const userJwt = await signJwt({ api_key: apiKey, user_external_id: 'a' }, key);
const projectJwt = await signJwt({ sub: projectId, role: 'project' }, key);
const bearer = (token: string) => ({ authorization: `Bearer ${token}` });
const at = (url: string, headers = {}) => read({ url, headers });

test('a JWT names its project, by the claims that authentication reads', async () => {
  expect(at('/v2/users', bearer(projectJwt))).toEqual({ projectId });
  expect(at('/v2/users', { authorization: `bEARER ${projectJwt}` })).toEqual({ projectId });
  expect(at('/v2/notifications', bearer(userJwt))).toEqual({ apiKey });
  const both = await signJwt({ api_key: apiKey, sub: projectId }, key);
  expect(at('/v2/notifications', bearer(both))).toEqual({ apiKey });
});

test('the API key names it in headers of either brand, queries and sub-protocols', () => {
  expect(at('/users', { 'x-acme-api-key': apiKey })).toEqual({ apiKey });
  expect(at('/users', { 'x-service-api-key': apiKey })).toEqual({ apiKey });
  expect(at('/users', { ...bearer('broken'), 'x-acme-api-key': apiKey })).toEqual({ apiKey });
  expect(at(`/?api_key=${apiKey}&token=x`)).toEqual({ apiKey });
  const offered = { 'sec-websocket-protocol': `belfry.v1, belfry.jwt.${userJwt}` };
  expect(at('/v2/notifications/stream', offered)).toEqual({ apiKey });
});

test('links of messages name it', () => {
  const [userId, broadcastId] = [newId(), newId()];
  const link = { projectId, userId, channel: 'email', category: 'news' };
  expect(at(`/unsubscribe/${unsubscribeToken(key, link)}`)).toEqual({ projectId });
  const encoded = `%${unsubscribeToken(key, link).charCodeAt(0).toString(16)}`;
  expect(at(`/unsubscribe/${encoded}${unsubscribeToken(key, link).slice(1)}`)).toEqual({ projectId });
  expect(at('/unsubscribe/%zz')).toBeUndefined();
  expect(at(`/preferences/${preferencesToken(key, { projectId, userId })}?x=1`)).toEqual({ projectId });
  const tracked = linksOf(
    { PUBLIC_URL: 'https://a.example' },
    { id: projectId, signingKey: key },
    { opens: true, clicks: true },
    { broadcastId, userId, channel: 'email' },
  );
  const target = { target: 'https://b.example/', encoded: 'https%3A%2F%2Fb.example%2F' };
  for (const url of [tracked?.openUrl?.(), tracked?.clickUrl?.(target)])
    expect(at((url ?? '').slice('https://a.example'.length))).toEqual({ projectId });
});

test('requests for the node, of vendors, and without a valid name have no project', () => {
  for (const path of ['/healthz', '/readyz?verbose', '/metrics', '/metrics/'])
    expect(at(path, bearer(projectJwt))).toBeUndefined();
  expect(at('/metrics', { 'x-acme-api-key': apiKey })).toEqual({ apiKey }); // of version 1
  expect(at(`/v2/integrations/ses/webhooks/incoming/${newId()}`, bearer(projectJwt))).toBeUndefined();
  expect(at('/v2/integrations/slack/webhooks/incoming', { 'x-acme-api-key': apiKey })).toBeUndefined();
  const wrong = ['', 'Bearer', 'Bearer a.b.c', `Basic ${projectJwt}`, 'Bearer \u0000'];
  for (const authorization of wrong) expect(at('/v2/users', { authorization })).toBeUndefined();
  for (const url of [
    '/unsubscribe/',
    '/unsubscribe/AAAA',
    '/t/c/e',
    '/t/o/x.gif',
    '/?api_key=',
    '//?api_key=x',
  ])
    expect(at(url)).toBeUndefined();
  expect(read({ headers: {} })).toBeUndefined();
});

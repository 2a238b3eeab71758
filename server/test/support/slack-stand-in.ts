import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type Outages, outagesOf } from './outage.ts';

/** Slack for tests: its token endpoint and its endpoints for messages, as Slack documents them. */
export interface SlackStandIn {
  /** For PROVIDER_SLACK_API_URL. */
  apiUrl: string;
  /** The URLs below this one are webhooks. */
  webhooksUrl: string;
  /** The requests for tokens, in order. */
  tokenRequests: TokenRequest[];
  /** The accepted messages, in order; `to` is a channel, or the path of a webhook. */
  posted: Posted[];
  /** The tokens of bots that have expired. */
  expired: Set<string>;
  /** The next rejections by channel, or by path of a webhook. */
  refusals: Map<string, Refusal[]>;
  /** Apps that Slack knows: client id → secret. */
  apps: Map<string, string>;
  /** A code of an installation, as Slack adds it to the redirect. `grant` is merged into its grant. */
  code(grant?: Record<string, unknown>): string;
  /** A pair of tokens, as Slack issues it to other clients. */
  pair(): { access_token: string; refresh_token: string; expires_in: number };
  /** The lifetime of new tokens in seconds; they do not expire if undefined. */
  rotate: number | undefined;
  /** Whether a refresh token is valid. */
  isGood(refreshToken: string): boolean;
  /** Responses that replace the next ones. */
  instead: ((response: ServerResponse) => void)[];
  /** How many of the next requests take effect without getting a response. */
  loseResponses: number;
  /** Delays responses until `release` or the end of the scope; `reached` resolves when a request waits. */
  hold(): { reached: Promise<void>; release(): void } & Disposable;
  outages: Outages;
  close(): Promise<void>;
}

interface Posted {
  to: string;
  token: string | undefined;
  body: Record<string, unknown>;
}

/** An error of Slack, or a whole response. */
type Refusal = string | { status: number; headers: Record<string, string> };

interface TokenRequest {
  path: string;
  authorization: string | undefined;
  contentType: string | undefined;
  form: Record<string, string>;
}

export async function startSlackStandIn(): Promise<SlackStandIn> {
  const codes = new Map<string, Record<string, unknown>>();
  const used = new Set<string>();
  const live = new Set<string>();
  let gate: { reached: () => void; open: Promise<void> } | undefined;
  const random = (prefix: string) => `${prefix}-${randomBytes(12).toString('hex')}`;

  const newPair = (lifetime: number) => {
    const refresh = random('xoxe-1');
    live.add(refresh);
    return { access_token: random('xoxe.xoxb'), refresh_token: refresh, expires_in: lifetime };
  };
  const tokens = () =>
    slack.rotate === undefined ? { access_token: random('xoxb') } : newPair(slack.rotate);

  const act = (received: TokenRequest): object => {
    const [clientId, secret] = credentialsIn(received);
    const error = (word: string) => ({ ok: false, error: word });
    if (!slack.apps.has(clientId)) return error('invalid_client_id');
    if (slack.apps.get(clientId) !== secret) return error('bad_client_secret');
    const { code = '', refresh_token: refresh = '', grant_type: type } = received.form;
    if (type === 'refresh_token') {
      if (!live.delete(refresh)) return error('invalid_refresh_token');
      return { ok: true, token_type: 'bot', ...tokens() };
    }
    if (used.has(code)) return error('code_already_used');
    const grant = codes.get(code);
    if (grant === undefined) return error('invalid_code');
    used.add(code);
    return {
      ok: true,
      ...grant,
      ...tokens(),
      ...(grant.access_token === null ? { access_token: undefined } : {}),
    };
  };

  const post = (
    { path, authorization, contentType, form, text }: TokenRequest & { text: string },
    response: ServerResponse,
  ) => {
    const isForm = contentType?.startsWith('application/x-www-form-urlencoded');
    const body = isForm ? membersOf(form) : (JSON.parse(text) as Record<string, unknown>);
    const byApi = path.endsWith('/chat.postMessage');
    const to = byApi ? String(body.channel) : path;
    const token = authorization?.slice('Bearer '.length);
    const refusal =
      slack.refusals.get(to)?.shift() ?? (slack.expired.has(token ?? '') ? 'token_expired' : undefined);
    if (typeof refusal === 'object') {
      response.writeHead(refusal.status, refusal.headers).end();
      return;
    }
    if (refusal === undefined) slack.posted.push({ to, token, body });
    const ts = `1700000000.${String(slack.posted.length).padStart(6, '0')}`;
    const result = refusal === undefined ? { ok: true, ts, channel: to } : { ok: false, error: refusal };
    if (byApi) response.setHeader('content-type', 'application/json').end(JSON.stringify(result));
    else response.writeHead(refusal === undefined ? 200 : 404).end(refusal ?? 'ok');
  };

  const server = createServer(async (request, response) => {
    const { text, ...received } = await read(request);
    if (!received.path.endsWith('/oauth.v2.access')) {
      post({ text, ...received }, response);
      return;
    }
    slack.tokenRequests.push(received);
    const instead = slack.instead.shift();
    if (instead !== undefined) {
      instead(response);
      return;
    }
    const result = act(received);
    gate?.reached();
    await gate?.open;
    if (slack.loseResponses > 0) {
      slack.loseResponses -= 1;
      response.destroy();
      return;
    }
    response.setHeader('content-type', 'application/json; charset=utf-8').end(JSON.stringify(result));
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');

  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const slack: SlackStandIn = {
    apiUrl: `${origin}/api`,
    webhooksUrl: `${origin}/services`,
    tokenRequests: [],
    posted: [],
    expired: new Set(),
    refusals: new Map(),
    apps: new Map(),
    rotate: undefined,
    instead: [],
    loseResponses: 0,
    code(grant = {}) {
      const code = random('code');
      codes.set(code, {
        app_id: 'A0TEST',
        authed_user: { id: 'U0INSTALLER' },
        scope: 'chat:write,incoming-webhook',
        token_type: 'bot',
        bot_user_id: 'U0BOT',
        team: { id: 'T0TEAM', name: 'Team' },
        enterprise: null,
        is_enterprise_install: false,
        ...grant,
      });
      return code;
    },
    pair: () => newPair(slack.rotate ?? 43_200),
    isGood: (token) => live.has(token),
    hold() {
      const reached = Promise.withResolvers<void>();
      const open = Promise.withResolvers<void>();
      gate = { reached: reached.resolve, open: open.promise };
      const release = () => {
        gate = undefined;
        open.resolve();
      };
      return { reached: reached.promise, release, [Symbol.dispose]: release };
    },
    outages: outagesOf(server),
    async close() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
  return slack;
}

/** Slack accepts credentials in the Authorization header and in the form. */
function credentialsIn({ authorization, form }: TokenRequest): [clientId: string, secret: string] {
  if (authorization === undefined) return [form.client_id ?? '', form.client_secret ?? ''];
  const text = Buffer.from(authorization.slice('Basic '.length), 'base64').toString();
  const [clientId = '', secret = ''] = text.split(':');
  return [clientId, secret];
}

/** The members of a form. Those that are not strings are encoded as JSON. */
function membersOf(form: Record<string, string>): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(form).map(([name, value]) => [
      name,
      /^(?:blocks|attachments|metadata|mrkdwn|unfurl_links|unfurl_media)$/.test(name)
        ? JSON.parse(value)
        : value,
    ]),
  );
}

async function read(request: IncomingMessage): Promise<TokenRequest & { text: string }> {
  let body = '';
  for await (const chunk of request.setEncoding('utf8')) body += chunk;
  return {
    path: request.url ?? '',
    authorization: request.headers.authorization,
    contentType: request.headers['content-type'],
    form: Object.fromEntries(new URLSearchParams(body)),
    text: body,
  };
}

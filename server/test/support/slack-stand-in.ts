import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type Outages, outagesOf } from './outage.ts';

/**
 * Slack's token endpoint and its posting as its documentation has them, with what can be made to go wrong.
 * Tokens rotate where `rotate` says so.
 */
export interface SlackStandIn {
  /** For PROVIDER_SLACK_API_URL. */
  apiUrl: string;
  /** For webhooks: whatever follows is the address of one. */
  webhooksUrl: string;
  /** What was asked for tokens, in order. */
  asked: Asked[];
  /** What was posted and taken, in order; `to` is a channel, or the path of a webhook. */
  posted: Posted[];
  /**
   * The bots' tokens that have run out, and answers to what is posted to a channel, or to a webhook's path,
   * once for each entry.
   */
  expired: Set<string>;
  refusals: Map<string, Refusal[]>;
  /** Apps that Slack knows: client id → secret. */
  apps: Map<string, string>;
  /** A code that Slack would send a user back with; `grant` is merged into what it buys. */
  code(grant?: Record<string, unknown>): string;
  /** A pair as Slack would have given it to somebody else. */
  pair(): { access_token: string; refresh_token: string; expires_in: number };
  /** Whether new tokens run out, after this many seconds. */
  rotate: number | undefined;
  /** Whether a refresh token buys tokens still. */
  isGood(refreshToken: string): boolean;
  /** What is answered instead, once for each entry. */
  instead: ((response: ServerResponse) => void)[];
  /** How many of the next requests are acted on, and then left without an answer. */
  loseAnswers: number;
  /** Holds answers back until the function it gives is called; `reached` resolves when a request waits. */
  hold(): { reached: Promise<void>; release(): void };
  outages: Outages;
  close(): Promise<void>;
}

interface Posted {
  to: string;
  token: string | undefined;
  body: Record<string, unknown>;
}

/** A word of Slack's, or a whole answer. */
type Refusal = string | { status: number; headers: Record<string, string> };

interface Asked {
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

  const act = (asked: Asked): object => {
    const [clientId, secret] = credentialsIn(asked);
    const error = (word: string) => ({ ok: false, error: word });
    if (!slack.apps.has(clientId)) return error('invalid_client_id');
    if (slack.apps.get(clientId) !== secret) return error('bad_client_secret');
    const { code = '', refresh_token: refresh = '', grant_type: type } = asked.form;
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
    { path, authorization, text, ...asked }: Asked & { text: string },
    response: ServerResponse,
  ) => {
    const isForm = asked.contentType?.startsWith('application/x-www-form-urlencoded');
    const body = isForm ? membersOf(asked.form) : (JSON.parse(text) as Record<string, unknown>);
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
    const said = refusal === undefined ? { ok: true, ts, channel: to } : { ok: false, error: refusal };
    if (byApi) response.setHeader('content-type', 'application/json').end(JSON.stringify(said));
    else response.writeHead(refusal === undefined ? 200 : 404).end(refusal ?? 'ok');
  };

  const server = createServer(async (request, response) => {
    const { text, ...asked } = await read(request);
    if (!asked.path.endsWith('/oauth.v2.access')) {
      post({ text, ...asked }, response);
      return;
    }
    slack.asked.push(asked);
    const instead = slack.instead.shift();
    if (instead !== undefined) {
      instead(response);
      return;
    }
    const answer = act(asked);
    gate?.reached();
    await gate?.open;
    if (slack.loseAnswers > 0) {
      slack.loseAnswers -= 1;
      response.destroy();
      return;
    }
    response.setHeader('content-type', 'application/json; charset=utf-8').end(JSON.stringify(answer));
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');

  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const slack: SlackStandIn = {
    apiUrl: `${origin}/api`,
    webhooksUrl: `${origin}/services`,
    asked: [],
    posted: [],
    expired: new Set(),
    refusals: new Map(),
    apps: new Map(),
    rotate: undefined,
    instead: [],
    loseAnswers: 0,
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
      return {
        reached: reached.promise,
        release() {
          gate = undefined;
          open.resolve();
        },
      };
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

/** Slack takes them as HTTP has them, and as members of the form. */
function credentialsIn({ authorization, form }: Asked): [clientId: string, secret: string] {
  if (authorization === undefined) return [form.client_id ?? '', form.client_secret ?? ''];
  const text = Buffer.from(authorization.slice('Basic '.length), 'base64').toString();
  const [clientId = '', secret = ''] = text.split(':');
  return [clientId, secret];
}

/** What is no text stands in a form as JSON. */
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

async function read(request: IncomingMessage): Promise<Asked & { text: string }> {
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

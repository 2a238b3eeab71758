import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

/** Slack's token endpoint as its documentation has it, with what can be made to go wrong. Tokens rotate where `rotate` says so. */
export interface SlackStandIn {
  /** For PROVIDER_SLACK_API_URL. */
  apiUrl: string;
  /** What was asked, in order. */
  asked: Asked[];
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
  close(): Promise<void>;
}

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
    const [clientId = '', secret = ''] = Buffer.from(
      asked.authorization?.slice('Basic '.length) ?? '',
      'base64',
    )
      .toString()
      .split(':');
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

  const server = createServer(async (request, response) => {
    const asked = await read(request);
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

  const slack: SlackStandIn = {
    apiUrl: `http://127.0.0.1:${(server.address() as AddressInfo).port}/api`,
    asked: [],
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
    async close() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
  return slack;
}

async function read(request: IncomingMessage): Promise<Asked> {
  let body = '';
  for await (const chunk of request.setEncoding('utf8')) body += chunk;
  return {
    path: request.url ?? '',
    authorization: request.headers.authorization,
    contentType: request.headers['content-type'],
    form: Object.fromEntries(new URLSearchParams(body)),
  };
}

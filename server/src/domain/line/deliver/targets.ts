import type { Progress } from '../../../queue/jobs.ts';
import type { Address } from '../../ground/identities/address.ts';
import { findSuppressed } from '../../ground/suppressions/suppressed.ts';
import type { InstallationOfUser, InstallationToken } from '../../people/installations/token.ts';
import { installationTokens } from '../../people/installations/tokens.ts';
import type { TokenRef } from '../../people/tokens/gone-token.ts';
import type { OpenedIntegration } from '../../setup/integrations/of-project.ts';
import type { LineContext } from '../context/context.ts';
import { reasonInWords } from '../routing/choose-channels.ts';
import { collectionOf, hasDestination } from '../routing/reach.ts';
import type { Unwanted } from '../routing/still-wanted.ts';
import { type Badge, countBadges, NO_BADGE } from './badges.ts';
import { type OpenedToken, openTokens, type TokensOf } from './open-tokens.ts';

type SaveApnsToken = { device_token: string; app_id?: string; installation_id?: string };
type SaveChatToken = {
  oauth?: { channel_id: string; installation_id: string };
  webhook?: { url: string };
};
type SaveTeamsToken = { webhook?: { url?: string } };
type SaveWebPushToken = { endpoint: string; keys: { auth: string; p256dh: string } };

/**
 * Where a message can go to: one of a user's devices, browsers or chats; or the user's address, or numbers.
 */
export interface Target {
  /** The token's; of what is no token the channel. */
  id: string;
  /** By which it can be reached, in the order of failover: one at least. */
  integrations: readonly OpenedIntegration[];
  to: Destination;
  token?: TokenRef;
}

export type Destination =
  | { channel: 'email'; email: string }
  /** The first of them; the next where one is refused. */
  | { channel: 'sms'; numbers: readonly string[] }
  | { channel: 'mobile_push'; device: Device; badge: Badge }
  | ({ channel: 'web_push' } & Pick<SaveWebPushToken, 'endpoint' | 'keys'>)
  | { channel: 'slack'; at: { webhookUrl: string } | ByBot }
  /** Without an address: the integration's own. */
  | { channel: 'teams'; webhookUrl: string | undefined }
  /** A token that cannot be opened. */
  | { channel: 'unreadable' };

type Device = { deviceToken: string; appId?: string; installationId?: string };

/** A channel of Slack, and the token with which the bot of an installation posts there. */
export interface ByBot {
  channelId: string;
  installation: InstallationOfUser;
  access: InstallationToken;
}

/** A delivery that is to be made now. */
export interface Due {
  projectId: string;
  channel: string;
  user: { id: string; email: string | null; phone_numbers: readonly string[] };
  /** It is sent to those, too, who have unsubscribed from the project's e-mails. */
  critical: boolean;
  progress: Progress | undefined;
}

/** Where a delivery goes, or why it goes nowhere. */
export type Addressed =
  | {
      kind: 'targets';
      now: readonly Target[];
      /** Targets whose time has not come, and when it does. */
      later: Readonly<Record<string, number>>;
      /** How many of those that were left have been discarded meanwhile. */
      lost: number;
    }
  | ({ kind: 'skipped' | 'failed' } & Unwanted);

/**
 * Finds where all these deliveries of one project go: tokens, suppressed addresses, the numbers on the icons
 * of apps and the tokens of Slack's bots by a statement each, and only where they are needed. This is the one
 * place where tokens are opened on their way.
 */
export async function findTargets(
  context: LineContext,
  integrations: readonly OpenedIntegration[],
  due: readonly Due[],
): Promise<ReadonlyMap<Due, Addressed>> {
  const nowMs = context.clock.now();
  const asked = new Map(due.map((one) => [one, tokensOf(one, integrations, nowMs)]));
  const [suppressed, tokens] = await Promise.all([
    findSuppressed(context, due[0]?.projectId ?? '', due.flatMap(addressesOf)),
    openTokens(
      context,
      [...asked.values()].filter((one) => one.collections.length > 0),
    ),
  ]);
  const [badges, bots] = await Promise.all([
    countBadges(context.db, integrations, holdersOf(due, 'mobile_push')),
    findBots(context, due, (one) => tokens.get(asked.get(one) as TokensOf) ?? []),
  ]);
  return new Map(
    due.map((one) => {
      if (!integrations.some(({ channel }) => channel === one.channel)) return [one, notSetUp(one)];
      if (one.channel === 'email') return [one, byAddress(one, integrations, suppressed)];
      if (one.channel === 'sms') return [one, byNumbers(one, integrations, suppressed)];
      const held = tokens.get(asked.get(one) as TokensOf) ?? [];
      const badge = badges.get(one.user.id) ?? NO_BADGE;
      const targets = held.map((token) => targetOf(one, token, { integrations, badge, bots }));
      if (held.length === 0) targets.push(...projectsOwn(one, integrations, nowMs));
      return [one, byTokens(one, targets, nowMs)];
    }),
  );
}

function notSetUp({ channel, progress }: Due): Addressed {
  // What was brought to some of them has ended well.
  if (progress !== undefined)
    return { kind: 'targets', now: [], later: {}, lost: Object.keys(progress.left).length };
  return {
    kind: 'failed',
    code: 'no_integration',
    reason: `the project has no integration for ${channel} any more`,
  };
}

type Suppressed = Awaited<ReturnType<typeof findSuppressed>>;

function addressesOf({ channel, user }: Due): Address[] {
  if (channel === 'email') return user.email === null ? [] : [{ kind: 'email', address: user.email }];
  if (channel === 'sms') return user.phone_numbers.map((address) => ({ kind: 'phone', address }));
  return [];
}

function byAddress(
  { user: { email }, critical }: Due,
  integrations: readonly OpenedIntegration[],
  suppressed: Suppressed,
): Addressed {
  if (email === null) return unreachable('email');
  const reason = suppressed('email', email)?.reason;
  if (reason !== undefined && !(critical && reason === 'unsubscribed')) return SUPPRESSED_ADDRESS;
  const target: Target = {
    id: 'email',
    integrations: integrations.filter(({ channel }) => channel === 'email'),
    to: { channel: 'email', email },
  };
  return { kind: 'targets', now: [target], later: {}, lost: 0 };
}

function byNumbers(
  { user: { phone_numbers: all } }: Due,
  integrations: readonly OpenedIntegration[],
  suppressed: Suppressed,
): Addressed {
  const numbers = all.filter((number) => suppressed('phone', number) === undefined);
  if (numbers.length === 0) return all.length === 0 ? unreachable('sms') : SUPPRESSED_NUMBERS;
  const target: Target = {
    id: 'sms',
    integrations: integrations.filter(({ channel }) => channel === 'sms'),
    to: { channel: 'sms', numbers },
  };
  return { kind: 'targets', now: [target], later: {}, lost: 0 };
}

function unreachable(channel: string): Addressed {
  return { kind: 'skipped', code: 'unreachable', reason: reasonInWords('unreachable', channel) };
}

const SUPPRESSED_ADDRESS: Addressed = {
  kind: 'skipped',
  code: 'address_suppressed',
  reason: "nothing is sent to the user's address: it is suppressed",
};
const SUPPRESSED_NUMBERS: Addressed = {
  kind: 'skipped',
  code: 'address_suppressed',
  reason: "nothing is sent to the user's phone numbers: they are suppressed",
};

/**
 * The tokens to ask for: those that are left and whose time has come, or all of the channel's collections
 * that are set up.
 */
function tokensOf(
  { channel, user, progress }: Due,
  integrations: readonly OpenedIntegration[],
  nowMs: number,
): TokensOf {
  const collections = new Set(
    integrations.flatMap((one) => (one.channel === channel ? (collectionOf(one) ?? []) : [])),
  );
  const of = { userId: user.id, collections: [...collections] };
  if (progress === undefined) return of;
  return { ...of, ids: new Set(Object.keys(progress.left).filter((id) => isDue(progress, id, nowMs))) };
}

/** The project's destination for users who have none of their own. */
function projectsOwn(
  { channel, progress }: Due,
  integrations: readonly OpenedIntegration[],
  nowMs: number,
): Target[] {
  if (channel !== 'teams') return [];
  const own = integrations.filter(hasDestination);
  const isLeft = progress === undefined || (channel in progress.left && isDue(progress, channel, nowMs));
  if (own.length === 0 || !isLeft) return [];
  return [{ id: channel, integrations: own, to: { channel, webhookUrl: undefined } }];
}

function isDue({ left }: Progress, id: string, nowMs: number): boolean {
  return (left[id] ?? 0) <= nowMs;
}

function byTokens({ channel, progress }: Due, now: readonly Target[], nowMs: number): Addressed {
  if (progress === undefined) {
    if (now.length === 0) return unreachable(channel);
    return { kind: 'targets', now, later: {}, lost: 0 };
  }
  const later = Object.fromEntries(
    Object.entries(progress.left).filter(([id]) => !isDue(progress, id, nowMs)),
  );
  const lost = Object.keys(progress.left).length - Object.keys(later).length - now.length;
  return { kind: 'targets', now, later, lost };
}

function holdersOf(due: readonly Due[], channel: string): ReadonlySet<string> {
  return new Set(due.filter((one) => one.channel === channel).map(({ user }) => user.id));
}

type Bots = ReadonlyMap<string, ByBot>;

/** The bots that post for tokens of Slack, by the tokens' ids. */
async function findBots(
  context: LineContext,
  due: readonly Due[],
  tokens: (one: Due) => readonly OpenedToken[],
): Promise<Bots> {
  const posted = new Map<string, Omit<ByBot, 'access'>>();
  for (const one of due) {
    if (one.channel !== 'slack') continue;
    for (const { id, collection, data } of tokens(one)) {
      const oauth = (data as SaveChatToken | undefined)?.oauth;
      if (oauth === undefined) continue;
      const provider = collection === 'slack' ? 'slack' : 'slackbot';
      const of = {
        projectId: one.projectId,
        userId: one.user.id,
        provider,
        id: oauth.installation_id,
      } as const;
      posted.set(id, { channelId: oauth.channel_id, installation: of });
    }
  }
  const access = await installationTokens(
    context,
    [...posted.values()].map(({ installation }) => installation),
  );
  return new Map(
    [...posted].map(([id, bot]) => [
      id,
      { ...bot, access: access.get(bot.installation) as InstallationToken },
    ]),
  );
}

function targetOf(
  { projectId, user }: Due,
  { id, collection, data }: OpenedToken,
  { integrations, badge, bots }: { integrations: readonly OpenedIntegration[]; badge: Badge; bots: Bots },
): Target {
  const own = integrations.filter((integration) => collectionOf(integration) === collection);
  const token: TokenRef = { projectId, userId: user.id, tokenId: id, channel: collection };
  if (data === undefined) return { id, integrations: own, token, to: { channel: 'unreadable' } };
  switch (collection) {
    case 'web_push': {
      const { endpoint, keys } = data as SaveWebPushToken;
      return { id, integrations: own, token, to: { channel: 'web_push', endpoint, keys } };
    }
    case 'teams': {
      const webhookUrl = (data as SaveTeamsToken).webhook?.url;
      // Whichever integration posts there, it is the same address.
      const by = webhookUrl === undefined ? own : own.slice(0, 1);
      return { id, integrations: by, token, to: { channel: 'teams', webhookUrl } };
    }
    case 'slack':
    case 'slack/service_slackbot': {
      const bot = bots.get(id);
      const webhookUrl = (data as SaveChatToken).webhook?.url ?? '';
      const at = bot ?? { webhookUrl };
      const to = { channel: 'slack', at } as const;
      if (bot === undefined) return { id, integrations: own.slice(0, 1), token, to };
      const { id: installationId } = bot.installation;
      const app = installationId.slice(0, installationId.indexOf('-'));
      // The bot's token is of one app, and whoever's of its integrations posts with it.
      const by = ofApp(own, app).slice(0, 1);
      return { id, integrations: by, token: { ...token, installationId }, to };
    }
    default: {
      const {
        device_token: deviceToken,
        app_id: appId,
        installation_id: installationId,
      } = data as SaveApnsToken;
      const device: Device = {
        deviceToken,
        ...(appId === undefined ? {} : { appId }),
        ...(installationId === undefined ? {} : { installationId }),
      };
      return { id, integrations: ofApp(own, appId), token, to: { channel: 'mobile_push', device, badge } };
    }
  }
}

/** Those of the app first: the others' keys may not be good for it. */
function ofApp(integrations: readonly OpenedIntegration[], app: string | undefined): OpenedIntegration[] {
  const isOfApp = ({ config }: OpenedIntegration) => app !== undefined && config.app_id === app;
  return [...integrations].sort((a, b) => Number(isOfApp(b)) - Number(isOfApp(a)));
}

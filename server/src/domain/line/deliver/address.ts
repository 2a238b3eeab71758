import { delivering } from '../../../providers/index.ts';
import type { TokenTarget } from '../../../providers/provider.ts';
import type { Progress } from '../../../queue/jobs.ts';
import type { Address } from '../../ground/identities/address.ts';
import { findSuppressed } from '../../ground/suppressions/suppressed.ts';
import type { InstallationOfUser, InstallationToken } from '../../people/installations/token.ts';
import { installationTokens } from '../../people/installations/tokens.ts';
import type { TokenRef } from '../../people/tokens/gone-token.ts';
import type { OpenedIntegration } from '../../setup/integrations/cache.ts';
import type { LineContext } from '../context/context.ts';
import { collectionOf, hasDestination, skipReasonText } from '../routing/routes.ts';
import { type Badge, countBadges, NO_BADGE } from './badges.ts';
import type { Addressed, Batch, Decided, Delivery, Destination, Target } from './delivery.ts';
import { type OpenedToken, openTokens, type TokensOf } from './open-tokens.ts';

/** A delivery outside the inbox that is made now, with the tokens that it may go to. */
interface Due extends TokensOf {
  delivery: Delivery;
  user: NonNullable<Delivery['user']>;
  /** The integrations of its channel. */
  integrations: readonly OpenedIntegration[];
}

/**
 * Finds the targets of deliveries that are made now: tokens, suppressed addresses, the numbers on app icons
 * and the access tokens of installations, by one statement each and only if they are needed. Tokens are
 * decrypted here and nowhere else on the way of a delivery.
 */
export async function address(
  context: LineContext,
  { project, integrations }: Batch,
  decided: readonly Decided[],
): Promise<Addressed[]> {
  const nowMs = context.clock.now();
  const byChannel = Map.groupBy(integrations, ({ channel }) => channel);
  const due = new Map(
    decided.flatMap((one): [Delivery, Due][] => {
      const { delivery } = one;
      if (one.kind !== 'deliver' || delivery.channel === 'in_app') return [];
      return [[delivery, dueOf(delivery, byChannel.get(delivery.channel) ?? [], nowMs)]];
    }),
  );
  const all = [...due.values()];
  const [suppressed, tokens] = await Promise.all([
    findSuppressed(context, project.id, all.flatMap(addressesOf)),
    openTokens(
      context,
      all.filter(({ collections }) => collections.length > 0),
    ),
  ]);
  const tokenTargets = new Map(
    [...tokens].map(([one, opened]) => [one, opened.map((token) => tokenTargetOf(one, token))]),
  );
  const pushed = all.flatMap(({ delivery, user }) => (delivery.channel === 'mobile_push' ? [user.id] : []));
  const [badges, access] = await Promise.all([
    countBadges(context.db, integrations, new Set(pushed)),
    accessTokens(context, tokenTargets),
  ]);
  return decided.map((one): Addressed => {
    if (one.kind !== 'deliver') return one;
    const { delivery } = one;
    const found = due.get(delivery);
    if (found === undefined) return { delivery, kind: 'inbox' };
    if (found.integrations.length === 0) return withoutIntegration(delivery);
    if (delivery.channel === 'email') return toAddress(found, suppressed);
    if (delivery.channel === 'sms') return toNumbers(found, suppressed);
    const badge = badges.get(found.user.id) ?? NO_BADGE;
    const targets = (tokenTargets.get(found) ?? []).map((one) => targetOf(delivery, one, { badge, access }));
    if (targets.length === 0) targets.push(...ownTargets(found, nowMs));
    return toTokens(delivery, targets, nowMs);
  });
}

/**
 * The tokens to ask for: the remaining ones that are due, or those of all collections of the channel's
 * integrations.
 */
function dueOf(delivery: Delivery, integrations: readonly OpenedIntegration[], nowMs: number): Due {
  const { user, userId, progress } = delivery;
  if (user === undefined) throw new Error('a delivery to a deleted user');
  const collections = [...new Set(integrations.flatMap((one) => collectionOf(one) ?? []))];
  const due = { delivery, user, integrations, userId, collections };
  if (progress === undefined) return due;
  return { ...due, ids: new Set(Object.keys(progress.left).filter((id) => isDue(progress, id, nowMs))) };
}

function isDue({ left }: Progress, id: string, nowMs: number): boolean {
  return (left[id] ?? 0) <= nowMs;
}

function withoutIntegration(delivery: Delivery): Addressed {
  const { channel, progress, wasSent } = delivery;
  // The delivery stays sent if some of its targets have accepted the message.
  if (progress !== undefined && (wasSent || progress.accepted > 0))
    return { delivery, kind: 'targets', now: [], later: {}, lost: Object.keys(progress.left).length };
  return {
    delivery,
    kind: 'fail',
    code: 'no_integration',
    reason: `the project no longer has an integration for ${channel}`,
  };
}

type Suppressed = Awaited<ReturnType<typeof findSuppressed>>;

function addressesOf({ delivery: { channel }, user }: Due): Address[] {
  if (channel === 'email') return user.email === null ? [] : [{ kind: 'email', address: user.email }];
  if (channel === 'sms') return user.phone_numbers.map((number) => ({ kind: 'phone', address: number }));
  return [];
}

function toAddress({ delivery, user: { email }, integrations }: Due, suppressed: Suppressed): Addressed {
  if (email === null) return unreachable(delivery);
  const reason = suppressed('email', email)?.reason;
  // Critical messages go to users, too, who have unsubscribed from the project's e-mails.
  const isAllowed = reason === undefined || (delivery.broadcast.critical && reason === 'unsubscribed');
  if (!isAllowed) return { delivery, ...SUPPRESSED_ADDRESS };
  return toOne(delivery, { id: 'email', integrations, to: { kind: 'email', email }, identifiers: [email] });
}

function toNumbers({ delivery, user, integrations }: Due, suppressed: Suppressed): Addressed {
  const all = user.phone_numbers;
  const numbers = all.filter((number) => suppressed('phone', number) === undefined);
  if (all.length === 0) return unreachable(delivery);
  if (numbers.length === 0) return { delivery, ...SUPPRESSED_NUMBERS };
  return toOne(delivery, { id: 'sms', integrations, to: { kind: 'numbers', numbers }, identifiers: numbers });
}

function toOne(delivery: Delivery, target: Target): Addressed {
  return { delivery, kind: 'targets', now: [target], later: {}, lost: 0 };
}

function unreachable(delivery: Delivery): Addressed {
  const reason = skipReasonText('unreachable', delivery.channel);
  return { delivery, kind: 'skip', code: 'unreachable', reason };
}

const SUPPRESSED_ADDRESS = {
  kind: 'skip',
  code: 'address_suppressed',
  reason: "the user's e-mail address is suppressed",
} as const;
const SUPPRESSED_NUMBERS = {
  kind: 'skip',
  code: 'address_suppressed',
  reason: "the user's phone numbers are suppressed",
} as const;

/** The destination of the project's integrations for users without a token. */
function ownTargets({ delivery, integrations }: Due, nowMs: number): Target[] {
  const { channel, progress } = delivery;
  const own = integrations.filter(hasDestination);
  const isRemaining = progress === undefined || (channel in progress.left && isDue(progress, channel, nowMs));
  if (own.length === 0 || !isRemaining) return [];
  return [{ id: channel, integrations: own, to: { kind: 'address', address: undefined }, identifiers: [] }];
}

function toTokens(delivery: Delivery, now: readonly Target[], nowMs: number): Addressed {
  const { progress } = delivery;
  if (progress === undefined)
    return now.length === 0 ? unreachable(delivery) : { delivery, kind: 'targets', now, later: {}, lost: 0 };
  const left = Object.entries(progress.left);
  const later = Object.fromEntries(left.filter(([id]) => !isDue(progress, id, nowMs)));
  const lost = left.length - Object.keys(later).length - now.length;
  return { delivery, kind: 'targets', now, later, lost };
}

/** A token with the integrations that send to it, and where they do; undefined if it cannot be decrypted. */
interface AddressedToken {
  token: OpenedToken;
  integrations: readonly OpenedIntegration[];
  target: TokenTarget | undefined;
}

function tokenTargetOf({ integrations: all }: Due, token: OpenedToken): AddressedToken {
  const integrations = all.filter((one) => collectionOf(one) === token.collection);
  const tokens = delivering.get(integrations[0]?.provider ?? '')?.tokens;
  const target = token.data === undefined ? undefined : tokens?.target(token.data as never);
  return { token, integrations, target };
}

/** The access tokens of installations, by the ids of the tokens that need them. */
type Access = ReadonlyMap<string, { installation: InstallationOfUser; access: InstallationToken }>;

async function accessTokens(
  context: LineContext,
  tokens: ReadonlyMap<Due, readonly AddressedToken[]>,
): Promise<Access> {
  const needed = new Map<string, InstallationOfUser>();
  for (const [{ delivery }, addressed] of tokens)
    for (const { token, integrations, target } of addressed) {
      if (target?.installation === undefined) continue;
      const { projectId, userId } = delivery;
      const provider = integrations[0]?.provider as InstallationOfUser['provider'];
      needed.set(token.id, { projectId, userId, provider, id: target.installation.id });
    }
  const access = await installationTokens(context, [...needed.values()]);
  return new Map(
    [...needed].map(([id, installation]) => [
      id,
      { installation, access: access.get(installation) as InstallationToken },
    ]),
  );
}

function targetOf(
  { projectId, userId, channel }: Delivery,
  { token: { id, collection }, integrations, target }: AddressedToken,
  { badge, access }: { badge: Badge; access: Access },
): Target {
  const token: TokenRef = { projectId, userId, tokenId: id, channel: collection };
  if (target === undefined) return { id, integrations, token, to: { kind: 'unreadable' }, identifiers: [] };
  const { installation, appId, isFixed, secrets: identifiers } = target;
  const ordered = appFirst(integrations, appId);
  return {
    id,
    integrations: isFixed ? ordered.slice(0, 1) : ordered,
    token: installation === undefined ? token : { ...token, installationId: installation.id },
    to: destinationOf(target, { channel, badge, access: access.get(id) }),
    identifiers,
  };
}

function destinationOf(
  { address: to, installation }: TokenTarget,
  { channel, badge, access }: { channel: string; badge: Badge; access: ReturnType<Access['get']> },
): Destination {
  if (installation !== undefined && access !== undefined)
    return { kind: 'installation', ...access, withAccess: installation.withAccess };
  return { kind: 'address', address: channel === 'mobile_push' ? { ...to, badge } : to };
}

/** The integrations of the app first: the keys of others may not be valid for the token. */
function appFirst(integrations: readonly OpenedIntegration[], app: string | undefined): OpenedIntegration[] {
  const isOfApp = ({ config }: OpenedIntegration) => app !== undefined && config.app_id === app;
  return [...integrations].sort((a, b) => Number(isOfApp(b)) - Number(isOfApp(a)));
}

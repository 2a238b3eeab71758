import type { Address } from '../../ground/identities/address.ts';
import { findSuppressed } from '../../ground/suppressions/suppressed.ts';
import type { OpenedIntegration } from '../../setup/integrations/cache.ts';
import type { LineContext } from '../context/context.ts';
import { skipReasonText } from '../routing/routes.ts';
import type { Addressed, Batch, Decided, Delivery, Target } from './delivery.ts';
import { type Due, findTokenTargets } from './token-targets.ts';

/**
 * Finds the targets of deliveries that are made now: addresses and numbers that are not suppressed, and
 * tokens (token-targets.ts), each only if they are needed.
 */
export async function address(
  context: LineContext,
  { project, integrations }: Batch,
  decided: readonly Decided[],
): Promise<Addressed[]> {
  const byChannel = Map.groupBy(integrations, ({ channel }) => channel);
  const due = new Map(
    decided.flatMap((one): [Delivery, Due][] => {
      const { delivery } = one;
      if (one.kind !== 'deliver' || delivery.channel === 'in_app') return [];
      return [[delivery, dueOf(delivery, byChannel.get(delivery.channel) ?? [])]];
    }),
  );
  const reachable = [...due.values()].filter((one) => one.integrations.length > 0);
  const toTokens = reachable.filter(({ delivery }) => !isPersonal(delivery));
  const [suppressed, tokenTargets] = await Promise.all([
    findSuppressed(context, project.id, reachable.flatMap(addressesOf)),
    toTokens.length === 0 ? undefined : findTokenTargets(context, toTokens),
  ]);
  return decided.map((one): Addressed => {
    if (one.kind !== 'deliver') return one;
    const { delivery } = one;
    const found = due.get(delivery);
    if (found === undefined) return { delivery, kind: 'inbox' };
    if (found.integrations.length === 0) return withoutIntegration(delivery);
    if (delivery.channel === 'email') return toAddress(found, suppressed);
    if (delivery.channel === 'sms') return toNumbers(found, suppressed);
    const targets = tokenTargets?.get(found);
    return targets === undefined ? unreachable(delivery) : { delivery, kind: 'targets', ...targets };
  });
}

function dueOf(delivery: Delivery, integrations: readonly OpenedIntegration[]): Due {
  const { user } = delivery;
  if (user === undefined) throw new Error('a delivery to a deleted user');
  return { delivery, user, integrations };
}

/** Whether it goes to the address or the numbers of the user. */
function isPersonal({ channel }: Delivery): boolean {
  return channel === 'email' || channel === 'sms';
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

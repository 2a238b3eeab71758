import type { Category } from '../../setup/categories/cache.ts';

/** Why a notification does not go out on a channel that the project has set up. */
export type SkipReason = 'category_disabled' | 'channel_not_listed' | 'switched_off' | 'unreachable';

/** What becomes of a category on a channel that is set up, before anything is known of the user. */
export interface Route {
  channel: string;
  /** It does not go out here at all. */
  skip: SkipReason | undefined;
  delayMs: number;
  /** A condition decides when it is due. */
  conditional: boolean;
  /** Users cannot switch it off. */
  required: boolean;
}

/** What counts of a user on a channel. */
export interface Recipient {
  /** There is an address or a token. The inbox always is. */
  reachable: boolean;
  /** The user does not want the broadcast's category on it. */
  switchedOff: boolean;
}

/**
 * What becomes of a broadcast on each channel that the project has set up, in their order. Without a config
 * for its category it goes out on all of them, at once. Pure.
 */
export function routesOf(category: Category | undefined, setUp: Iterable<string>): Route[] {
  return [...setUp].map((channel) => {
    if (category === undefined)
      return { channel, skip: undefined, delayMs: 0, conditional: false, required: false };
    const listed = category.channels.find((one) => one.channel === channel);
    return {
      channel,
      skip: category.disabled ? 'category_disabled' : listed === undefined ? 'channel_not_listed' : undefined,
      delayMs: listed?.delayMs ?? 0,
      conditional: listed?.condition !== undefined,
      required: category.critical,
    };
  });
}

/**
 * Why a user does not get it on a channel, undefined if the user does: the category's config first, then the
 * user, then the address. Pure.
 */
export function skipReason(
  { skip, required }: Route,
  { reachable, switchedOff }: Recipient,
): SkipReason | undefined {
  if (skip !== undefined) return skip;
  if (switchedOff && !required) return 'switched_off';
  return reachable ? undefined : 'unreachable';
}

/** A reason in words, for events. */
export function reasonInWords(reason: SkipReason, channel: string): string {
  switch (reason) {
    case 'category_disabled':
      return 'the category is disabled';
    case 'channel_not_listed':
      return 'the category does not go out on this channel';
    case 'switched_off':
      return 'the user has switched this category off on this channel';
    case 'unreachable':
      if (channel === 'email') return 'the user has no e-mail address';
      if (channel === 'sms') return 'the user has no phone number';
      return 'the user cannot be reached on this channel';
  }
}

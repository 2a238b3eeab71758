import { LRUCache } from 'lru-cache';
import type { NewBroadcast } from '../../../contract/broadcast.ts';
import { type PreparedEmail, prepareEmail } from './email.ts';
import { plainText } from './plain-text.ts';

/** A broadcast's texts on one channel. */
export interface ChannelTexts {
  title: string;
  content: string | null;
  actionUrl: string | null;
}

/** The texts with everything that is rendered once for all users. */
export type Prepared = ChannelTexts & ({ email: PreparedEmail } | { text: string });

/** A broadcast's content, as it is stored. */
export interface StoredContent {
  message: { title: string; content: string | null; action_url: string | null };
  overrides: NonNullable<NewBroadcast['overrides']>;
}

/** The broadcast's texts on a channel: the channel's override first. Pure. */
function channelTexts({ message, overrides }: StoredContent, channel: string): ChannelTexts {
  const all: Record<string, Override | undefined> = overrides.channels ?? {};
  const override: Override = (Object.hasOwn(all, channel) ? all[channel] : undefined) ?? {};
  return {
    title: override.title ?? message.title,
    content: override.content ?? message.content,
    // An override of null removes the link; without one the broadcast's counts.
    actionUrl: override.action_url === undefined ? message.action_url : override.action_url,
  };
}

// A tap opens the whole push: links in its text cannot be followed.
const NO_LINKS: ReadonlySet<string> = new Set(['mobile_push', 'web_push']);

type Override = { title?: string; content?: string; action_url?: string | null };

// A broadcast to half a million users is loaded by thousands of batches, and converting long HTML takes 50
// ms.
const MAX_CHARACTERS = 4_000_000;
const PER_ENTRY = 200; // of memory, beside the text

/** Returns a function that prepares texts, and caches the plain texts of recent broadcasts. */
export function createPreparation(): (
  broadcast: StoredContent & { id: string },
  channel: string,
) => Prepared {
  const plain = new LRUCache<string, string>({
    maxSize: MAX_CHARACTERS,
    sizeCalculation: (text) => text.length + PER_ENTRY,
  });
  return (broadcast, channel) => {
    const texts = channelTexts(broadcast, channel);
    if (channel === 'email') return { ...texts, email: prepareEmail(texts) };
    const key = `${broadcast.id} ${channel}`;
    const text = plain.get(key) ?? plainText(texts.content, NO_LINKS.has(channel) ? 'hidden' : 'shown');
    plain.set(key, text);
    return { ...texts, text };
  };
}

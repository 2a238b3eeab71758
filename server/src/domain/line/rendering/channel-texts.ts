import { LRUCache } from 'lru-cache';
import type { NewBroadcast } from '../../../contract/broadcast.ts';
import { type PreparedEmail, prepareEmail } from './email.ts';
import { plainText } from './plain-text.ts';

/** What a broadcast says on one channel. */
export interface ChannelTexts {
  title: string;
  content: string | null;
  actionUrl: string | null;
}

/** The same with all that is made of it once for all users. */
export type Prepared = ChannelTexts & ({ email: PreparedEmail } | { text: string });

/** What a broadcast says, as it is stored. */
export interface Said {
  message: { title: string; content: string | null; action_url: string | null };
  overrides: NonNullable<NewBroadcast['overrides']>;
}

/** The broadcast's texts on a channel: its override's members before its own. Pure. */
function channelTexts({ message, overrides }: Said, channel: string): ChannelTexts {
  const all: Record<string, Override | undefined> = overrides.channels ?? {};
  const said: Override = (Object.hasOwn(all, channel) ? all[channel] : undefined) ?? {};
  return {
    title: said.title ?? message.title,
    content: said.content ?? message.content,
    // An override's null takes the link away; an absent one leaves the broadcast's.
    actionUrl: said.action_url === undefined ? message.action_url : said.action_url,
  };
}

// A push is touched as a whole: what is written in it cannot be followed.
const NO_LINKS: ReadonlySet<string> = new Set(['mobile_push', 'web_push']);

type Override = { title?: string; content?: string; action_url?: string | null };

// A broadcast to half a million users comes by in thousands of batches, and plain text of long HTML takes 50
// ms.
const MAX_CHARACTERS = 4_000_000;
const PER_ENTRY = 200; // of memory, beside the text

/** Prepares texts; plain ones of the broadcasts under way are remembered. */
export function createPreparation(): (broadcast: Said & { id: string }, channel: string) => Prepared {
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

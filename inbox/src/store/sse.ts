import type { Transport } from '@belfry/sdk';

/** A block of a stream of Server-Sent Events. A heartbeat has neither. */
export interface Block {
  id?: string;
  event?: string;
  data?: string;
}

/**
 * Opens the stream of the user's notifications, and yields its blocks and heartbeats as they arrive. Belfry
 * writes each field on a line of its own that ends in LF.
 */
export async function* openStream(
  api: Transport,
  {
    signal,
    lastEventId,
    listed,
    onToken,
    onOpen,
  }: {
    signal: AbortSignal;
    lastEventId: string | undefined;
    listed: number;
    onToken: () => void;
    onOpen: () => void;
  },
): AsyncGenerator<Block, void, undefined> {
  const request = api.prepare(
    { method: 'GET', path: '/notifications/stream', query: { snapshot: listed } },
    { headers: { accept: 'text/event-stream', ...(lastEventId && { 'last-event-id': lastEventId }) } },
  );
  const { body } = await api.attempt(request, signal, onToken);
  onOpen();
  const reader = body?.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  for (;;) {
    const { done, value } = (await reader?.read()) ?? { done: true };
    if (done || value === undefined) return;
    const blocks = (rest + value).split('\n\n');
    rest = blocks.pop() ?? '';
    // At least one, because data arrived.
    for (const block of blocks.length > 0 ? blocks : ['']) yield parsed(block);
  }
}

function parsed(block: string): Block {
  const fields: Record<string, string> = {};
  for (const line of block.split('\n')) {
    const colon = line.indexOf(': ');
    if (colon > 0) fields[line.slice(0, colon)] = line.slice(colon + 2);
  }
  return fields;
}

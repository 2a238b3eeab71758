/**
 * One block of an event stream: an event, or only news about the stream itself (an `id` or a `retry` without
 * data).
 */
export interface StreamEvent {
  id?: string;
  retryMs?: number;
  name: string;
  data?: string;
}

/** The blocks of a body of type text/event-stream. `onBytes` is called for all that comes, heartbeats too. */
export async function* readEvents(
  body: ReadableStream<Uint8Array>,
  onBytes: () => void,
): AsyncGenerator<StreamEvent> {
  let event: StreamEvent = { name: 'message' };
  for await (const line of linesOf(body, onBytes)) {
    if (line !== '') {
      addField(event, line);
      continue;
    }
    if (event.data !== undefined || event.id !== undefined || event.retryMs !== undefined) yield event;
    event = { name: 'message' };
  }
}

function addField(event: StreamEvent, line: string): void {
  const colon = line.indexOf(':');
  const field = colon === -1 ? line : line.slice(0, colon);
  const value = colon === -1 ? '' : line.slice(colon + 1).replace(/^ /, '');
  if (field === 'data') event.data = event.data === undefined ? value : `${event.data}\n${value}`;
  else if (field === 'event') event.name = value;
  else if (field === 'id' && !value.includes('\0')) event.id = value;
  else if (field === 'retry' && /^\d+$/.test(value)) event.retryMs = Number(value);
}

async function* linesOf(body: ReadableStream<Uint8Array>, onBytes: () => void): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  // A line can be megabytes in many pieces: they are put together once, when its end has come.
  let pieces: string[] = [];
  for await (const bytes of body) {
    onBytes();
    const parts = decoder.decode(bytes, { stream: true }).split('\n');
    for (const part of parts.slice(0, -1)) {
      pieces.push(part);
      yield pieces.join('').replace(/\r$/, '');
      pieces = [];
    }
    pieces.push(parts.at(-1) ?? '');
  }
}

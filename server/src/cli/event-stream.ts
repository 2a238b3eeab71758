/** One block of an event stream: an event, or an `id` or `retry` for the stream without data. */
export interface StreamEvent {
  id?: string;
  retryMs?: number;
  name: string;
  data?: string;
}

/** The blocks of a text/event-stream. `onBytes` is called for all bytes, including heartbeats. */
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
  // The pieces of a line, which may have megabytes, are joined once at its end.
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

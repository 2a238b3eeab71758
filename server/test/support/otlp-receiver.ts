/** A collector for tests: it accepts OTLP over HTTP as protobuf, and keeps the spans and metrics. */
import { createServer, type IncomingHttpHeaders } from 'node:http';
import type { AddressInfo } from 'node:net';

/** Attribute values are texts, numbers or booleans. */
type Values = Record<string, unknown>;

export interface ReceivedSpan {
  traceId: string;
  spanId: string;
  /** Empty for the first span of a trace. */
  parentId: string;
  name: string;
  /** 1 internal, 2 server, 3 client, 4 producer, 5 consumer. */
  kind: number;
  attributes: Values;
  failed: boolean;
  /** The attributes of its process. */
  resource: Values;
}

export interface OtlpReceiver {
  readonly address: string;
  readonly spans: ReceivedSpan[];
  /** The names of the metrics of each export, with the attributes of its process. */
  readonly metrics: { names: string[]; resource: Values }[];
  /** The headers of the last request to this path. */
  headers(path: string): IncomingHttpHeaders | undefined;
  /** Reads requests and does not respond, until the returned function is called. */
  hang(): () => void;
  /** The status of all further responses. */
  reply(status: number): void;
  stop(): Promise<void>;
}

/** Starts a collector. */
export async function startOtlpReceiver(): Promise<OtlpReceiver> {
  const spans: ReceivedSpan[] = [];
  const metrics: OtlpReceiver['metrics'] = [];
  const headers = new Map<string | undefined, IncomingHttpHeaders>();
  let mayRespond = Promise.resolve();
  let status = 200;
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    headers.set(request.url, request.headers);
    if (request.headers['content-type'] !== 'application/x-protobuf') return response.writeHead(415).end();
    const body = Buffer.concat(chunks);
    if (request.url === '/v1/traces') spans.push(...spansIn(body));
    if (request.url === '/v1/metrics') metrics.push(...metricsIn(body));
    await mayRespond;
    response.writeHead(status, { 'content-type': 'application/x-protobuf' }).end();
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    address: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    spans,
    metrics,
    headers: (path) => headers.get(path),
    hang() {
      const { promise, resolve } = Promise.withResolvers<void>();
      mayRespond = promise;
      return resolve;
    },
    reply(next) {
      status = next;
    },
    async stop() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

// The numbers of the fields are those of opentelemetry-proto: trace.proto, metrics.proto and common.proto.

function spansIn(body: Buffer): ReceivedSpan[] {
  return parts(body, 1).flatMap((ofResource) => {
    const resource = attributesIn(parts(ofResource, 1)[0] ?? Buffer.alloc(0), 1);
    const all = parts(ofResource, 2).flatMap((ofScope) => parts(ofScope, 2));
    return all.map((span) => {
      const hex = (field: number) => parts(span, field)[0]?.toString('hex') ?? '';
      const [status = Buffer.alloc(0)] = parts(span, 15);
      return {
        traceId: hex(1),
        spanId: hex(2),
        parentId: hex(4),
        name: String(parts(span, 5)[0]),
        kind: numbers(span, 6)[0] ?? 0,
        attributes: attributesIn(span, 9),
        failed: numbers(status, 3)[0] === 2,
        resource,
      };
    });
  });
}

function metricsIn(body: Buffer): OtlpReceiver['metrics'] {
  return parts(body, 1).map((ofResource) => ({
    resource: attributesIn(parts(ofResource, 1)[0] ?? Buffer.alloc(0), 1),
    names: parts(ofResource, 2)
      .flatMap((ofScope) => parts(ofScope, 2))
      .map((metric) => String(parts(metric, 1)[0])),
  }));
}

function attributesIn(message: Buffer, field: number): Values {
  return Object.fromEntries(
    parts(message, field).map((pair) => {
      const [value = Buffer.alloc(0)] = parts(pair, 2);
      const text = parts(value, 1)[0]?.toString();
      return [String(parts(pair, 1)[0]), text ?? numbers(value, 3)[0] ?? numbers(value, 2)[0] === 1];
    }),
  );
}

/** The values of a field that are texts, bytes or messages. */
function parts(message: Buffer, field: number): Buffer[] {
  return fieldsOf(message).flatMap(({ number, value }) =>
    number === field && Buffer.isBuffer(value) ? [value] : [],
  );
}

/** The values of a field that are whole numbers. */
function numbers(message: Buffer, field: number): number[] {
  return fieldsOf(message).flatMap(({ number, value }) =>
    number === field && typeof value === 'number' ? [value] : [],
  );
}

/** Reads the fields of a message in the wire format of protobuf. */
function fieldsOf(message: Buffer): { number: number; value: Buffer | number }[] {
  const fields: { number: number; value: Buffer | number }[] = [];
  let at = 0;
  const varint = () => {
    let value = 0;
    for (let factor = 1; ; factor *= 128) {
      const byte = message[at++];
      if (byte === undefined) throw new Error('the message ends within a number');
      value += (byte % 128) * factor;
      if (byte < 128) return value;
    }
  };
  const bytes = (length: number) => {
    at += length;
    if (at > message.length) throw new Error('the message ends within a field');
    return message.subarray(at - length, at);
  };
  while (at < message.length) {
    const tag = varint();
    const number = Math.floor(tag / 8);
    const type = tag % 8;
    if (type === 0) fields.push({ number, value: varint() });
    else if (type === 1) fields.push({ number, value: bytes(8) });
    else if (type === 2) fields.push({ number, value: bytes(varint()) });
    else if (type === 5) fields.push({ number, value: bytes(4) });
    else throw new Error(`the wire type ${type} is unknown`);
  }
  return fields;
}

import { AsyncLocalStorage } from 'node:async_hooks';

/** Facts about a span: never content, addresses, tokens or URLs. */
export type Attributes = Record<string, string | number | boolean>;

/** A part of the work, as traces show it. */
export interface Span {
  readonly traceId: string;
  readonly spanId: string;
  /** The W3C trace context by which another process continues the trace. */
  readonly traceparent: string;
  set(attributes: Attributes): void;
  /** Marks it as failed, with the type of the error: a code or the name of a class. */
  fail(type: string): void;
  end(): void;
}

export interface SpanOptions {
  /** By default, internal. */
  kind?: 'server' | 'client' | 'producer' | 'consumer' | 'internal';
  /** The trace context of its parent. By default the active span is its parent. */
  parent?: string | undefined;
  attributes?: Attributes;
}

/** Starts a span. */
export type StartSpan = (name: string, options: SpanOptions) => Span;

let start: StartSpan | undefined;
const active = new AsyncLocalStorage<Span | undefined>();

/**
 * Lets spans be recorded by `recorder`, or by nothing from now on. Spans are those of the process, as metrics
 * are. Until it is called, tracing costs a comparison.
 */
export function recordSpans(recorder: StartSpan | undefined): void {
  start = recorder;
}

/** Whether spans are recorded. */
export function isTracing(): boolean {
  return start !== undefined;
}

/** The span that the running work belongs to. */
export function activeSpan(): Span | undefined {
  return start === undefined ? undefined : active.getStore();
}

/** Starts a span, which its caller ends; undefined if none are recorded. */
export function startSpan(name: string, options: SpanOptions): Span | undefined {
  return start?.(name, { ...options, parent: options.parent ?? active.getStore()?.traceparent });
}

/** Does the work as a part of this span; of none, if it is undefined. */
export function within<Result>(span: Span | undefined, work: () => Result): Result {
  return start === undefined ? work() : active.run(span, work);
}

/**
 * Does the work as a part of a new span, which ends with it. On hot paths, callers ask `isTracing()` before,
 * so that they need no attributes and no functions without it.
 */
export async function traced<Result>(
  name: string,
  options: SpanOptions,
  work: (span: Span | undefined) => Promise<Result>,
): Promise<Result> {
  const span = startSpan(name, options);
  if (span === undefined) return work(undefined);
  try {
    return await active.run(span, () => work(span));
  } catch (error) {
    span.fail(error instanceof Error ? error.name : 'unknown');
    throw error;
  } finally {
    span.end();
  }
}

/**
 * Records a request to another host, which has just begun, as a part of the active span. Without one it would
 * be a trace of its own, so it is left out. So are its path and query, which may have tokens.
 */
export function traceHttp<Result extends { status: number } | { error: { code: string } }>(
  origin: string,
  method: string,
  response: Promise<Result>,
): Promise<Result> {
  if (activeSpan() === undefined) return response;
  const { hostname, port, protocol } = new URL(origin);
  const attributes = {
    'http.request.method': method,
    'server.address': hostname,
    'server.port': Number(port) || (protocol === 'https:' ? 443 : 80),
  };
  return traced(method, { kind: 'client', attributes }, async (span) => {
    const result = await response;
    if ('error' in result) span?.fail(result.error.code);
    else {
      span?.set({ 'http.response.status_code': result.status });
      if (result.status >= 400) span?.fail(String(result.status));
    }
    return result;
  });
}

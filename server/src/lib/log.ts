import { type DestinationStream, type Logger as PinoLogger, pino } from 'pino';
import { RepeatedLines } from './repeated-lines.ts';
import { activeSpan } from './tracing.ts';

export type Logger = PinoLogger;

const WARN = 40; // the number of this level in pino

/**
 * Creates a logger that writes JSON lines to standard output, or readable lines to a terminal. Values with
 * secret names and texts that look like secrets are replaced in every line. A warning or error that differs
 * in nothing but its time is written once a minute, with how often it was left out as `repeated`.
 */
export function createLogger({ level, stream }: { level: string; stream?: DestinationStream }): Logger {
  const output = stream ?? (process.stdout.isTTY ? readable(process.stdout) : pino.destination(1));
  const repeated = new RepeatedLines();
  return pino(
    {
      level,
      base: null, // the supervisor can add pid and hostname
      timestamp: pino.stdTimeFunctions.isoTime,
      mixin: traceOfLine,
      formatters: { level: (label) => ({ level: label }) },
      // Applied to the finished line, so that it covers bindings of children, causes of errors, and JSON
      // within strings.
      hooks: {
        streamWrite: hideSecrets,
        logMethod(args, write, level) {
          const line = level < WARN ? undefined : withoutTime(this, level, args);
          const leftOut = line === undefined ? 0 : repeated.note(line, performance.now());
          if (leftOut === undefined) return;
          write.apply(leftOut > 0 ? this.child({ repeated: leftOut }) : this, args);
        },
      },
    },
    output,
  );
}

/** What a line says, without its time, trace and stack. Undefined if that cannot be compared. */
function withoutTime(logger: Logger, level: number, [facts, ...texts]: unknown[]): string | undefined {
  try {
    return JSON.stringify([level, logger.bindings(), facts, texts], (_, value) =>
      value instanceof Error ? { ...value, message: value.message } : value,
    );
  } catch {
    return undefined;
  }
}

/** The trace that the logging work is a part of. A new object each time, because pino adds to it. */
function traceOfLine(): object {
  const span = activeSpan();
  return span === undefined ? {} : { trace_id: span.traceId, span_id: span.spanId };
}

const HIDDEN = '[hidden]';

// A member with a secret name, up to the first character of its value. In JSON within a string, quotes are
// escaped by backslashes. All repetitions are bounded, because a line contains kilobytes of untrusted input.
const SECRET_MEMBER =
  // language-ignore: a single regular expression
  /"(?:authorization|(?:set-)?cookie|pass|password|passwd|jwt|certificate|webhook|auth|p256dh|[\w-]{0,60}(?:secret|token|hmac|api[-_]?key|private[-_]?key|signing[-_]?key|secret[-_]?key|project[-_]?jwt))(\\{0,15})"\s?:\s?(\\{0,15})(["[{])/gi;
// Texts that look like secrets: bearer tokens, JWTs, our own secrets, private keys, passwords in URLs, tokens
// in queries.
const SECRET_TEXT: [RegExp, string | ((match: string) => string)][] = [
  [/\bBearer\s+[^\s"\\,;]+/gi, `Bearer ${HIDDEN}`],
  // Tried once for each run of these characters, whatever the run contains.
  [
    /(?<![\w-])(?=[\w-]*?\beyJ[\w-]{8})[\w-]+\.[\w-]{1,4096}\.[\w-]*/g,
    (match) => match.replace(/\beyJ.*$/s, HIDDEN),
  ],
  [/\bsk_[\w-]{8,}/g, HIDDEN],
  [/-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----[^-]*(?:-----END [A-Z ]{0,40}PRIVATE KEY-----)?/g, HIDDEN],
  [/(\b[a-z][a-z0-9+.-]{0,20}:\/\/[^\s"\\/:@]{0,200}):[^\s"\\/@]{1,500}@/gi, `$1:${HIDDEN}@`],
  [/([?&](?:token|access_token|auth|secret|password|jwt)=)[^&\s"\\#]+/gi, `$1${HIDDEN}`],
];

/** Returns the line without secrets. */
export function hideSecrets(line: string): string {
  let text = hideMembers(line);
  for (const [pattern, replacement] of SECRET_TEXT) text = text.replace(pattern, replacement as string);
  return text;
}

function hideMembers(line: string): string {
  let shown = '';
  let from = 0;
  SECRET_MEMBER.lastIndex = 0;
  for (let match = SECRET_MEMBER.exec(line); match !== null; match = SECRET_MEMBER.exec(line)) {
    const [, slashes = '', , opening = ''] = match;
    const start = SECRET_MEMBER.lastIndex;
    const end =
      opening === '"' ? endOfString(line, start, slashes.length) : endOfNest(line, start, slashes.length);
    const quote = `${slashes}"`;
    shown += `${line.slice(from, start - 1 - (match[2] ?? '').length)}${quote}${HIDDEN}${quote}`;
    from = end;
    SECRET_MEMBER.lastIndex = end;
  }
  return from === 0 ? line : shown + line.slice(from);
}

/**
 * Returns the index after the closing quote of a string whose own quotes have `slashes` backslashes before
 * them: 0 in JSON, 1 in JSON within a string, 3 within that. Quotes in its content have one more pair of
 * backslashes.
 */
function endOfString(line: string, start: number, slashes: number): number {
  for (let at = line.indexOf('"', start); at >= 0; at = line.indexOf('"', at + 1)) {
    let before = at;
    while (before > start && line[before - 1] === '\\') before -= 1;
    const run = at - before;
    if (run < slashes) return before; // the enclosing string ends here: this one was truncated
    if (run % (2 * (slashes + 1)) === slashes) return at + 1;
  }
  return line.length;
}

/** Returns the index after the bracket that closes the list or object opened before `start`. */
function endOfNest(line: string, start: number, slashes: number): number {
  let depth = 1;
  const next = /["[\]{}]/g;
  next.lastIndex = start;
  for (let match = next.exec(line); match !== null; match = next.exec(line)) {
    if (match[0] === '"') next.lastIndex = endOfString(line, next.lastIndex, slashes);
    else depth += match[0] === '[' || match[0] === '{' ? 1 : -1;
    if (depth === 0) return next.lastIndex;
  }
  return line.length;
}

/** Formats lines for people: time, level, message, the other members, then the stack on separate lines. */
function readable(out: NodeJS.WriteStream): DestinationStream {
  return {
    write(line) {
      const { time, level, msg, err, ...rest } = JSON.parse(line) as Record<string, unknown>;
      const more = Object.entries(rest).map(
        ([name, value]) => ` ${name}=${typeof value === 'string' ? value : JSON.stringify(value)}`,
      );
      const stack = typeof err === 'object' && err !== null && 'stack' in err ? `\n${String(err.stack)}` : '';
      out.write(
        `${String(time).slice(11, 19)} ${String(level).toUpperCase().padEnd(5)} ` +
          `${msg ?? ''}${more.join('')}${stack}\n`,
      );
    },
  };
}

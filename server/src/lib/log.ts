import { type DestinationStream, type Logger as PinoLogger, pino } from 'pino';

export type Logger = PinoLogger;

/**
 * A logger of JSON lines on standard output (on a terminal: of readable lines). Whatever is logged, values
 * under the name of a secret and everything that looks like one are replaced before a line leaves the
 * process.
 */
export function createLogger({ level, stream }: { level: string; stream?: DestinationStream }): Logger {
  const output = stream ?? (process.stdout.isTTY ? readable(process.stdout) : pino.destination(1));
  return pino(
    {
      level,
      base: null, // one process on one host: pid and hostname are the supervisor's to add
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
      // On the finished line, so that nothing slips by: bindings of children, causes of errors, JSON within
      // strings.
      hooks: { streamWrite: hideSecrets },
    },
    output,
  );
}

const HIDDEN = '[hidden]';

// A member whose name says that it is secret, up to the first character of its value. In JSON within a
// string, quotes have backslashes before them. All repetitions are bounded: a line is a few kilobytes of
// whatever somebody sent.
const SECRET_MEMBER =
  /"(?:authorization|(?:set-)?cookie|pass|password|passwd|jwt|certificate|webhook|auth|p256dh|[\w-]{0,60}(?:secret|token|hmac|api[-_]?key|private[-_]?key|signing[-_]?key|secret[-_]?key|project[-_]?jwt))(\\{0,15})"\s?:\s?(\\{0,15})(["[{])/gi;
// What is secret by its look: bearer tokens, JWTs, our own secrets, private keys, passwords in addresses,
// tokens in queries.
const SECRET_TEXT: [RegExp, string][] = [
  [/\bBearer\s+[^\s"\\,;]+/gi, `Bearer ${HIDDEN}`],
  [/\beyJ[\w-]{8,4096}\.[\w-]{1,4096}\.[\w-]*/g, HIDDEN],
  [/\bsk_[\w-]{8,}/g, HIDDEN],
  [/-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----[^-]*(?:-----END [A-Z ]{0,40}PRIVATE KEY-----)?/g, HIDDEN],
  [/(\b[a-z][a-z0-9+.-]{0,20}:\/\/[^\s"\\/:@]{0,200}):[^\s"\\/@]{1,500}@/gi, `$1:${HIDDEN}@`],
  [/([?&](?:token|access_token|auth|secret|password|jwt)=)[^&\s"\\#]+/gi, `$1${HIDDEN}`],
];

/** The text without anything secret by name or by look. */
export function hideSecrets(line: string): string {
  let text = hideMembers(line);
  for (const [pattern, replacement] of SECRET_TEXT) text = text.replace(pattern, replacement);
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
 * The index behind the closing quote of a string whose own quotes have `slashes` backslashes before them: 0
 * in JSON, 1 in JSON within a string, 3 within that. A quote of its content has one pair more.
 */
function endOfString(line: string, start: number, slashes: number): number {
  for (let at = line.indexOf('"', start); at >= 0; at = line.indexOf('"', at + 1)) {
    let before = at;
    while (before > start && line[before - 1] === '\\') before -= 1;
    const run = at - before;
    if (run < slashes) return before; // the string around ends here: ours was cut short
    if (run % (2 * (slashes + 1)) === slashes) return at + 1;
  }
  return line.length;
}

/** The index behind the bracket that closes the list or object that was opened before `start`. */
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

/** Lines for eyes: time, level, message, then the other members; a stack on lines of its own. */
function readable(out: NodeJS.WriteStream): DestinationStream {
  return {
    write(line) {
      const { time, level, msg, err, ...rest } = JSON.parse(line) as Record<string, unknown>;
      const more = Object.entries(rest).map(
        ([name, value]) => ` ${name}=${typeof value === 'string' ? value : JSON.stringify(value)}`,
      );
      const stack = typeof err === 'object' && err !== null && 'stack' in err ? `\n${String(err.stack)}` : '';
      out.write(
        `${String(time).slice(11, 19)} ${String(level).toUpperCase().padEnd(5)} ${msg ?? ''}${more.join('')}${stack}\n`,
      );
    },
  };
}

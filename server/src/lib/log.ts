import { type DestinationStream, type Logger as PinoLogger, pino } from 'pino';

export type Logger = PinoLogger;

/**
 * A logger of JSON lines on standard output (on a terminal: of readable lines). Whatever is logged, values under the
 * name of a secret and everything that looks like one are replaced before a line leaves the process.
 */
export function createLogger({ level, stream }: { level: string; stream?: DestinationStream }): Logger {
  const output = stream ?? (process.stdout.isTTY ? readable(process.stdout) : pino.destination(1));
  return pino(
    {
      level,
      base: null, // one process on one host: pid and hostname are the supervisor's to add
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
      // On the finished line, so that nothing slips by: bindings of children, causes of errors, JSON within strings.
      hooks: { streamWrite: hideSecrets },
    },
    output,
  );
}

const HIDDEN = '[hidden]';

// A member whose name says that it is secret, with its string or list. In JSON within JSON each quote has backslashes before it.
const SECRET_NAMES = [
  'authorization',
  'cookie',
  'set-cookie',
  'password',
  'passwd',
  'token',
  'jwt',
  'certificate',
  'device_token',
  'webhook',
  '[a-z0-9_-]*(?:secret|api[-_]?secret|private[-_]?key|signing[-_]?key|secret[-_]?key|api[-_]?key|access[-_]?token|refresh[-_]?token|bot[-_]?token|project[-_]?jwt|user[-_]?hmac|hmac)',
].join('|');
const SECRET_MEMBER = new RegExp(
  String.raw`(\\*")((?:${SECRET_NAMES}))(\\*"\s*:\s*)(?:\\+"(?:[^"\\]|\\(?!\\*"))*\\+"|"(?:[^"\\]|\\.)*"|\[[^\]]*\])`,
  'gi',
);
// What is secret by its look: bearer tokens, JWTs, our own secrets, private keys, passwords in addresses, tokens in queries.
const SECRET_TEXT: [RegExp, string][] = [
  [/\bBearer\s+[^\s"\\,;]+/gi, `Bearer ${HIDDEN}`],
  [/\beyJ[\w-]{8,}\.[\w-]+\.[\w-]*/g, HIDDEN],
  [/\bsk_[\w-]{8,}/g, HIDDEN],
  [/-----BEGIN [A-Z ]*PRIVATE KEY-----[^-]*(?:-----END [A-Z ]*PRIVATE KEY-----)?/g, HIDDEN],
  [/(\b[a-z][a-z0-9+.-]{0,20}:\/\/[^\s"\\/:@]*):[^\s"\\/@]+@/gi, `$1:${HIDDEN}@`],
  [/([?&](?:token|access_token|auth|secret|password|jwt)=)[^&\s"\\#]+/gi, `$1${HIDDEN}`],
];

/** The text without anything secret by name or by look. */
export function hideSecrets(line: string): string {
  let text = line.replace(SECRET_MEMBER, (_all, open: string, name: string, middle: string) => {
    const quote = open; // as deep inside JSON as its name
    return `${open}${name}${middle}${quote}${HIDDEN}${quote}`;
  });
  for (const [pattern, replacement] of SECRET_TEXT) text = text.replace(pattern, replacement);
  return text;
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

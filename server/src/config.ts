import { accessSync, constants } from 'node:fs';
import { availableParallelism, homedir } from 'node:os';
import { resolve } from 'node:path';
import { natsServers } from './lib/nats-servers.ts';
import { parseNetworks } from './lib/networks.ts';
import { vendorOrigins } from './providers/index.ts';
import type { OriginSetting } from './providers/shared/transport.ts';

export const ROLES = ['api', 'worker', 'realtime'] as const;

/** A part of the service that a node runs. */
export type Role = (typeof ROLES)[number];

const OWN_SETTINGS = {
  DATA_DIR: {
    default: './data',
    help: 'The directory of the embedded database, the credentials and the key that encrypts secrets.',
    read: (text: string) => resolve(text.replace(/^~(?=$|\/)/, () => homedir())),
  },
  HOST: {
    default: '127.0.0.1',
    help: 'The address to listen on. `0.0.0.0` or `::` opens the server to the network.',
    read: (text: string) => text,
  },
  PORT: {
    default: '3000',
    help: 'The port to listen on; 0 takes any free one.',
    read: (text: string) => integer(text, 0, 65_535),
  },
  ROLE: {
    default: 'api,worker,realtime',
    help:
      'What this node does, separated by commas: `api` accepts requests, `worker` runs jobs, `realtime` ' +
      'serves WebSockets and streams. Fewer than all need DATABASE_URL, and other nodes with the rest.',
    read: roles,
  },
  PROCESSES: {
    default: '1',
    help:
      'How many processes this node has: a number, or `auto` for one per core. From two on, bulk has ' +
      'processes of its own; from three on, so do WebSockets and streams.',
    read: (text: string) => (text === 'auto' ? availableParallelism() : integer(text, 1, 256)),
  },
  MAX_CONNECTIONS: {
    default: '20000',
    help:
      'The most open connections of a process, including WebSockets and streams; 0 for no limit. ' +
      'Further ones are closed at once, without a response, and counted in `/metrics`. ' +
      'Each takes a file descriptor and memory: 4 kB for an idle WebSocket, 13 kB for an open inbox.',
    read: (text: string) => integer(text, 0, 10_000_000),
  },
  DATABASE_URL: {
    default: '',
    help:
      'A PostgreSQL 15 or newer to use instead of the embedded one: ' +
      '`postgres://user:password@host:5432/database`.',
    read: (text: string) => optional(text, readDatabaseUrl),
    secret: true,
  },
  DATABASE_DIRECT_URL: {
    default: '',
    help:
      'The address of the database itself, if DATABASE_URL is that of a connection pooler in transaction ' +
      'mode. Messages between nodes, migrations, backups and the clock use it. Default: DATABASE_URL.',
    read: (text: string) => optional(text, readDatabaseUrl),
    secret: true,
  },
  NATS_URL: {
    default: '',
    help:
      'NATS servers that carry the messages between nodes instead of the database, separated by commas: ' +
      '`nats://user:password@host:4222`, or `tls://` and `nats://token@host`. Set it for all nodes.',
    read: (text: string) => optional(text, natsServers),
    secret: true,
  },
  PUBLIC_URL: {
    default: '',
    help:
      'The address at which clients and recipients reach the server, for links in responses and e-mails. ' +
      'Default: `http://HOST:PORT`, and in responses the host of the request.',
    read: (text: string) => optional(text, baseUrl),
  },
  DEMO: {
    default: '',
    help:
      'Whether `/demo` is served: `on` or `off`. Everyone who can open it can use the project `demo`. ' +
      'Default: on if HOST is a loopback address and PUBLIC_URL is not set.',
    read: (text: string) =>
      optional(text, (value) => matching(value.toLowerCase(), /^(?:on|off)$/, 'on or off') === 'on'),
  },
  OPERATOR_CONTACT: {
    default: '',
    help:
      'The contact for push services that have a problem with this server: ' +
      'an `https:` or `mailto:` address. Apple requires one for pushes to its browsers. ' +
      'Default: PUBLIC_URL, if that is https.',
    read: (text: string) => optional(text, (value) => url(value, ['https:', 'mailto:'])),
  },
  SECRET_KEY: {
    default: '',
    help:
      'The key that encrypts stored secrets: 32 bytes as 64 hexadecimal or 44 base64 characters. ' +
      'Several keys are separated by commas: the first encrypts, and all decrypt. ' +
      'Default: a key file in DATA_DIR, created at the first start.',
    read: (text: string) => optional(text, secretKeys) ?? [],
    secret: true,
  },
  BRAND: {
    default: 'service',
    help:
      'The brand word in header names (`X-<BRAND>-…`) and in the path segment `<brand>_slackbot`. ' +
      'The word `service` is always accepted as well.',
    read: (text: string) =>
      matching(text.toLowerCase(), /^[a-z][a-z0-9]{0,30}$/, 'a word of letters and digits'),
  },
  EGRESS_ALLOW: {
    default: '',
    help:
      'Private address ranges that requests to addresses set by customers may reach (integrations, ' +
      'webhooks, workflows), as CIDR separated by commas: `10.0.0.0/8,127.0.0.1/32`.',
    read: networks,
  },
  TRUSTED_PROXIES: {
    default: '',
    help:
      'The proxies in front of the server, as CIDR separated by commas: `10.0.0.0/8,fd00::/8`. ' +
      'Only their `X-Forwarded-For` determines the address by which requests are limited and logged. ' +
      'Default: none, so the address is that of the connection.',
    read: networks,
  },
  RATE_LIMIT_READS: {
    default: '250',
    help: 'GET, HEAD and OPTIONS requests per minute and credential; 0 switches the limit off.',
    read: (text: string) => integer(text, 0, 1_000_000_000),
  },
  RATE_LIMIT_WRITES: {
    default: '200',
    help: 'Other requests per minute and credential; 0 switches the limit off.',
    read: (text: string) => integer(text, 0, 1_000_000_000),
  },
  RATE_LIMIT_V1_READS: {
    default: '100',
    help: 'The same as RATE_LIMIT_READS for the v1 API, whose requests are counted separately.',
    read: (text: string) => integer(text, 0, 1_000_000_000),
  },
  RATE_LIMIT_V1_WRITES: {
    default: '60',
    help: 'The same as RATE_LIMIT_WRITES for the v1 API.',
    read: (text: string) => integer(text, 0, 1_000_000_000),
  },
  RATE_LIMIT_IP: {
    default: '500',
    help: 'Requests per minute and address without a valid credential; 0 switches the limit off.',
    read: (text: string) => integer(text, 0, 1_000_000_000),
  },
  REQUEST_BODIES_MIB: {
    default: '',
    help:
      'Memory for the bodies of running requests, in MiB, of which one credential gets half; and as much ' +
      'again for responses that are being sent. When it is used up, requests with bodies of more than ' +
      '64 KiB, and reads with such responses, get a 429 or 503. ' +
      'Default: an eighth of the heap limit (`--max-old-space-size`).',
    read: (text: string) => optional(text, (value) => integer(value, 1, 1_000_000)),
  },
  SLACKBOT_APP_ID: {
    default: '',
    help:
      "The id of the server's own Slack app, for projects without a Slack app of their own: " +
      '`<brand>_slackbot`.',
    read: (text: string) =>
      optional(text, (value) => matching(value, /^[0-9A-Z]{1,50}$/, 'the id of a Slack app')),
  },
  SLACKBOT_CLIENT_ID: {
    default: '',
    help: "The client id of the server's own Slack app.",
    read: (text: string) =>
      optional(text, (value) => matching(value, /^[0-9]+\.[0-9]+$/, 'two numbers with a dot between them')),
  },
  SLACKBOT_CLIENT_SECRET: {
    default: '',
    help: "The client secret of the server's own Slack app.",
    read: (text: string) => optional(text, (value) => matching(value, /^\S{32}$/, '32 characters')),
    secret: true,
  },
  SLACKBOT_SIGNING_SECRET: {
    default: '',
    help: "The signing secret of the server's own Slack app, which verifies reports from Slack.",
    read: (text: string) => optional(text, (value) => matching(value, /^\S{32}$/, '32 characters')),
    secret: true,
  },
  LEGACY_TIMESTAMPS: {
    default: 'iso',
    help: 'The form of times in v1: `iso` for ISO 8601, or `unix` for seconds since 1970.',
    read: (text: string) => oneOf(text, ['iso', 'unix'] as const),
  },
  EVENTS_RETENTION_DAYS: {
    default: '90',
    help:
      'How many days events are kept; 0 keeps them forever. All events of a month are deleted together, ' +
      'when the last one is that old. ' +
      'Webhooks and streams can only deliver events that are kept.',
    read: (text: string) => integer(text, 0, 36_500),
  },
  NOTIFICATIONS_RETENTION_DAYS: {
    default: '365',
    help:
      'How many days a processed broadcast is kept with its notifications; 0 keeps them forever. ' +
      'The deliveries of a month are deleted together, after its last broadcast was deleted.',
    read: (text: string) => integer(text, 0, 36_500),
  },
  SHUTDOWN_DELAY_SECONDS: {
    default: '0',
    help:
      'How long the server works on after SIGTERM while `/readyz` responds with 503, ' +
      'so that load balancers send their requests elsewhere before it stops. 5 suits Kubernetes.',
    read: (text: string) => integer(text, 0, 3_600),
  },
  SHUTDOWN_GRACE_SECONDS: {
    default: '7',
    help:
      'How long running requests and jobs may then take. Up to 4 seconds later the process has ended: ' +
      'the process manager has to wait for the sum of both settings and 4 seconds. With several PROCESSES, ' +
      'one that hangs is killed 8 seconds after both settings: wait for 10 seconds instead of 4.',
    read: (text: string) => integer(text, 1, 3_600),
  },
  OTEL_EXPORTER_OTLP_ENDPOINT: {
    default: '',
    help:
      'The OpenTelemetry collector that gets traces and metrics, by OTLP over HTTP: ' +
      '`http://127.0.0.1:4318`. Default: none, so nothing is recorded or sent.',
    read: (text: string) => optional(text, (value) => url(value, ['http:', 'https:'])),
    secret: true,
  },
  OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: {
    default: '',
    help: 'The whole URL for traces, such as `http://127.0.0.1:4318/v1/traces`.',
    read: (text: string) => optional(text, (value) => url(value, ['http:', 'https:'])),
    secret: true,
  },
  OTEL_EXPORTER_OTLP_METRICS_ENDPOINT: {
    default: '',
    help: 'The whole URL for metrics, such as `http://127.0.0.1:4318/v1/metrics`.',
    read: (text: string) => optional(text, (value) => url(value, ['http:', 'https:'])),
    secret: true,
  },
  OTEL_EXPORTER_OTLP_HEADERS: {
    default: '',
    help: 'Headers of these requests, such as `authorization=Bearer%20abc,x-tenant=shop`.',
    read: pairs,
    secret: true,
  },
  OTEL_EXPORTER_OTLP_TRACES_HEADERS: {
    default: '',
    help: 'Further headers for traces. They replace those with the same name.',
    read: pairs,
    secret: true,
  },
  OTEL_EXPORTER_OTLP_METRICS_HEADERS: {
    default: '',
    help: 'Further headers for metrics. They replace those with the same name.',
    read: pairs,
    secret: true,
  },
  OTEL_EXPORTER_OTLP_PROTOCOL: {
    default: 'http/protobuf',
    help: 'How telemetry is sent. The only value is `http/protobuf`.',
    read: (text: string) => oneOf(text, ['http/protobuf'] as const),
  },
  OTEL_EXPORTER_OTLP_TRACES_PROTOCOL: {
    default: 'http/protobuf',
    help: 'The same for traces.',
    read: (text: string) => oneOf(text, ['http/protobuf'] as const),
  },
  OTEL_EXPORTER_OTLP_METRICS_PROTOCOL: {
    default: 'http/protobuf',
    help: 'The same for metrics.',
    read: (text: string) => oneOf(text, ['http/protobuf'] as const),
  },
  OTEL_EXPORTER_OTLP_TIMEOUT: {
    default: '10000',
    help: 'How long an export may take, in milliseconds, including its retries.',
    read: (text: string) => integer(text, 1, 600_000),
  },
  OTEL_EXPORTER_OTLP_TRACES_TIMEOUT: {
    default: '',
    help: 'The same for traces. Default: `OTEL_EXPORTER_OTLP_TIMEOUT`.',
    read: (text: string) => optional(text, (value) => integer(value, 1, 600_000)),
  },
  OTEL_EXPORTER_OTLP_METRICS_TIMEOUT: {
    default: '',
    help: 'The same for metrics. Default: `OTEL_EXPORTER_OTLP_TIMEOUT`.',
    read: (text: string) => optional(text, (value) => integer(value, 1, 600_000)),
  },
  OTEL_TRACES_EXPORTER: {
    default: '',
    help: 'Whether traces are sent: `otlp` or `none`. Default: `otlp` if an endpoint is set for them.',
    read: (text: string) => optional(text, (value) => oneOf(value, ['otlp', 'none'] as const)),
  },
  OTEL_METRICS_EXPORTER: {
    default: '',
    help: 'Whether metrics are sent: `otlp` or `none`. Default: `otlp` if an endpoint is set for them.',
    read: (text: string) => optional(text, (value) => oneOf(value, ['otlp', 'none'] as const)),
  },
  OTEL_METRIC_EXPORT_INTERVAL: {
    default: '60000',
    help: 'How often metrics are sent, in milliseconds.',
    read: (text: string) => integer(text, 100, 86_400_000),
  },
  OTEL_BSP_SCHEDULE_DELAY: {
    default: '5000',
    help: 'How often traces are sent, in milliseconds, unless 512 spans wait.',
    read: (text: string) => integer(text, 1, 600_000),
  },
  OTEL_TRACES_SAMPLER: {
    default: 'parentbased_always_on',
    help:
      'Which traces are recorded: `always_on`, `always_off` or `traceidratio`. With `parentbased_` before ' +
      'it, requests with a `traceparent` are recorded as their caller decided.',
    read: (text: string) =>
      oneOf(text, [
        'always_on',
        'always_off',
        'traceidratio',
        'parentbased_always_on',
        'parentbased_always_off',
        'parentbased_traceidratio',
      ] as const),
  },
  OTEL_TRACES_SAMPLER_ARG: {
    default: '1',
    help: 'The part of the traces that `traceidratio` records, from 0 to 1.',
    read: (text: string) => fraction(text),
  },
  OTEL_PROPAGATORS: {
    default: 'tracecontext,baggage',
    help:
      'The headers by which requests continue traces. `tracecontext` reads `traceparent`; others are ' +
      'ignored.',
    read: (text: string) => text.split(',').map((name) => name.trim()),
  },
  OTEL_SERVICE_NAME: {
    default: '',
    help: 'The name of this service in traces and metrics. Default: `belfry`.',
    read: (text: string) => optional(text, (value) => value),
  },
  OTEL_RESOURCE_ATTRIBUTES: {
    default: '',
    help: 'Further attributes of this service, such as `deployment.environment.name=production`.',
    read: pairs,
  },
  OTEL_SDK_DISABLED: {
    default: 'false',
    help: '`true` switches traces and metrics by OTLP off, whatever else is set.',
    read: (text: string) => oneOf(text.toLowerCase(), ['true', 'false'] as const) === 'true',
  },
  LOG_LEVEL: {
    default: 'info',
    help:
      'The lowest level that is logged: ' +
      '`trace`, `debug` (each request), `info`, `warn`, `error`, `fatal` or `silent`.',
    read: (text: string) =>
      oneOf(text, ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'] as const),
  },
} as const satisfies Record<string, Setting>;

interface Setting {
  default: string;
  help: string;
  read: (text: string) => unknown;
  secret?: boolean;
}

/** The settings that follow from providers. */
const ORIGIN_SETTINGS = Object.fromEntries(
  Object.entries(vendorOrigins).map(([name, origin]) => [
    name,
    {
      default: '',
      help: `Replaces ${origin}, for a proxy or a test server. May be a private address.`,
      read: (text: string) => optional(text, baseUrl),
    },
  ]),
);

/**
 * Every setting of the server: its name, default, meaning and parser. This is the only file that reads the
 * environment, and the source of the reference page.
 */
export const SETTINGS: Readonly<Record<string, Setting>> = { ...OWN_SETTINGS, ...ORIGIN_SETTINGS };

/** The parsed settings. */
export type Config = {
  readonly [Name in keyof typeof OWN_SETTINGS]: ReturnType<(typeof OWN_SETTINGS)[Name]['read']>;
} & { readonly [Name in OriginSetting]?: string | undefined };

/** Where traces or metrics are sent by OTLP, as the exporters of OpenTelemetry take it. */
export interface OtlpTarget {
  url: string;
  headers: Readonly<Record<string, string>>;
  timeoutMillis: number;
}

/** The collectors of traces and metrics; undefined for what is not sent. */
export function telemetryOf(config: Config): Record<'traces' | 'metrics', OtlpTarget | undefined> {
  return { traces: otlpTarget(config, 'TRACES'), metrics: otlpTarget(config, 'METRICS') };
}

function otlpTarget(config: Config, signal: 'TRACES' | 'METRICS'): OtlpTarget | undefined {
  const exporter = config[`OTEL_${signal}_EXPORTER`];
  const own = config[`OTEL_EXPORTER_OTLP_${signal}_ENDPOINT`];
  const base = config.OTEL_EXPORTER_OTLP_ENDPOINT;
  const isWanted = exporter === 'otlp' || (exporter === undefined && (own ?? base) !== undefined);
  if (config.OTEL_SDK_DISABLED || !isWanted) return undefined;
  return {
    url: own ?? `${(base ?? 'http://localhost:4318').replace(/\/+$/, '')}/v1/${signal.toLowerCase()}`,
    headers: { ...config.OTEL_EXPORTER_OTLP_HEADERS, ...config[`OTEL_EXPORTER_OTLP_${signal}_HEADERS`] },
    timeoutMillis: config[`OTEL_EXPORTER_OTLP_${signal}_TIMEOUT`] ?? config.OTEL_EXPORTER_OTLP_TIMEOUT,
  };
}

/** Settings are invalid; lists all of them. */
export class InvalidSettings extends Error {
  readonly problems: readonly string[];

  constructor(problems: readonly string[]) {
    super(problems.join('\n'));
    this.problems = problems;
  }
}

/**
 * Reads all settings from the environment, and those that a command has flags for from `flags`. Throws
 * `InvalidSettings` with every invalid or unknown one.
 */
export function readConfig(
  variables: Readonly<Record<string, string | undefined>> = process.env,
  flags: Readonly<Record<string, string | undefined>> = {},
): Config {
  const given = Object.entries(flags).filter(([, text]) => text !== undefined);
  const environment = { ...variables, ...Object.fromEntries(given) };
  const problems = unknownSettings(environment);
  const values: Record<string, unknown> = {};
  for (const [name, setting] of Object.entries<Setting>(SETTINGS)) {
    const text = environment[name] ?? '';
    try {
      values[name] = setting.read(text === '' ? setting.default : text);
    } catch (error) {
      const shown = setting.secret || HAS_USER.test(text) ? '' : ` '${text}'`;
      problems.push(`${name}${shown} ${error instanceof Error ? error.message : String(error)}`);
    }
  }
  if (problems.length > 0) throw new InvalidSettings(problems);
  return values as Config;
}

// A URL with a user, and so perhaps with a password.
const HAS_USER = /\/\/[^/]*@/;

// An unknown name is a misspelled setting if it has the prefix of a group of settings, or if it differs from
// a setting of at least 7 letters by one letter. The variables of clients in the guides are not settings.
const FAMILIES = /^(RATE_LIMIT_|TRUSTED_|EGRESS_|BELFRY_|SLACKBOT_|PROVIDER_\w+_(BASE|API|AUTHORIZE)_URL$)/;
const OF_CLIENTS = new Set(['BELFRY_API_KEY', 'BELFRY_API_SECRET', 'BELFRY_PROJECT_JWT', 'BELFRY_URL']);

function unknownSettings(environment: Readonly<Record<string, string | undefined>>): string[] {
  const known = Object.keys(SETTINGS);
  const problems: string[] = [];
  for (const name of Object.keys(environment)) {
    if (name in SETTINGS || OF_CLIENTS.has(name)) continue;
    const meant = known.find((candidate) => candidate.length >= 7 && oneEditApart(candidate, name));
    if (meant !== undefined) problems.push(`${name} is not a setting; did you mean ${meant}?`);
    else if (FAMILIES.test(name)) problems.push(`${name} is not a setting; see docs/reference/settings.md`);
  }
  return problems;
}

/** Whether `a` and `b` differ by one letter that is added, missing, changed or swapped with the next. */
function oneEditApart(a: string, b: string): boolean {
  if (Math.abs(a.length - b.length) > 1) return false;
  let start = 0;
  while (start < a.length && a[start] === b[start]) start += 1;
  let end = 0;
  while (end < Math.min(a.length, b.length) - start && a.at(-1 - end) === b.at(-1 - end)) end += 1;
  const restA = a.slice(start, a.length - end);
  const restB = b.slice(start, b.length - end);
  if (restA.length <= 1 && restB.length <= 1) return true;
  return restA.length === 2 && restB.length === 2 && restA[0] === restB[1] && restA[1] === restB[0];
}

function roles(text: string): readonly Role[] {
  const names = text.split(',').map((name) => name.trim());
  const unknown = names.filter((name) => !ROLES.some((role) => role === name));
  if (unknown.length > 0)
    throw new Error(
      `has ${unknown.map((name) => `'${name}'`).join(' and ')}: the roles are ${ROLES.join(', ')}`,
    );
  return ROLES.filter((role) => names.includes(role));
}

function integer(text: string, from: number, to: number): number {
  const value = Number(text);
  if (!/^\d+$/.test(text) || value < from || value > to)
    throw new Error(`must be a whole number from ${from} to ${to}`);
  return value;
}

function fraction(text: string): number {
  const value = Number(text);
  if (!/^[\d.]+$/.test(text) || !(value >= 0 && value <= 1)) throw new Error('must be a number from 0 to 1');
  return value;
}

/** `name=value,…`, with values in percent-encoding, as OpenTelemetry writes them. */
function pairs(text: string): Readonly<Record<string, string>> {
  const parts = text.split(',').filter((part) => part.trim() !== '');
  try {
    return Object.fromEntries(
      parts.map((part) => {
        const [, name = '', value = ''] = /^\s*([^\s=]+)\s*=(.*)$/.exec(part) as RegExpExecArray;
        return [decodeURIComponent(name), decodeURIComponent(value.trim())];
      }),
    );
  } catch {
    throw new Error('must be pairs separated by commas, such as name=value,other=a%20b');
  }
}

function optional<Value>(text: string, read: (text: string) => Value): Value | undefined {
  return text === '' ? undefined : read(text);
}

function url(text: string, protocols: readonly string[]): string {
  const starts = protocols.map((one) => (one === 'mailto:' ? one : `${one}//`));
  if (!starts.some((start) => text.toLowerCase().startsWith(start)))
    throw new Error(`must be an address that starts with ${starts.join(' or ')}`);
  if (!URL.canParse(text))
    throw new Error(
      'is not a valid URL: check the host and port, and write / as %2F, ? as %3F, # as %23, @ as %40 and ' +
        '% as %25 in the user and password',
    );
  return text;
}

/** Returns the text if it is the address of a PostgreSQL; otherwise throws what is wrong with it. */
export function readDatabaseUrl(text: string): string {
  const { searchParams } = new URL(url(text, ['postgres:', 'postgresql:']));
  for (const name of ['sslrootcert', 'sslcert', 'sslkey']) {
    const file = searchParams.get(name);
    if (file === null) continue;
    try {
      // The driver reads it for each connection, and its error looks like one of a socket.
      accessSync(file, constants.R_OK);
    } catch (error) {
      throw new Error(`has ${name}=${file}, which cannot be read (${(error as NodeJS.ErrnoException).code})`);
    }
  }
  return text;
}

/** A URL to which paths are added. */
function baseUrl(text: string): string {
  const { username, password, search, hash } = new URL(url(text, ['http:', 'https:']));
  if (username !== '' || password !== '') throw new Error('must not have a user or password');
  if (search !== '' || hash !== '') throw new Error('must not have a ? or #, because paths are added to it');
  return text.replace(/\/+$/, '');
}

function networks(text: string): string {
  try {
    parseNetworks(text);
  } catch {
    throw new Error('must be CIDR blocks separated by commas, such as 10.0.0.0/8,127.0.0.1/32');
  }
  return text;
}

function secretKeys(text: string): Buffer[] {
  const parts = text.split(',').map((part) => part.trim());
  const keys = parts.filter((part) => part !== '').map(secretKey);
  // Both come from variables that are not set. Without a key, another one would be created.
  if (keys.length === 0) throw new Error('has no key: set 64 hexadecimal characters (openssl rand -hex 32)');
  return keys;
}

function secretKey(text: string): Buffer {
  const key = /^[0-9a-f]{64}$/i.test(text) ? Buffer.from(text, 'hex') : Buffer.from(text, 'base64');
  if (key.length !== 32)
    throw new Error(
      'must be 32 bytes as 64 hexadecimal or 44 base64 characters (make one with: openssl rand -hex 32)',
    );
  return key;
}

function matching(text: string, pattern: RegExp, what: string): string {
  if (!pattern.test(text)) throw new Error(`must be ${what}`);
  return text;
}

function oneOf<const Value extends string>(text: string, values: readonly Value[]): Value {
  const found = values.find((value) => value === text);
  if (found === undefined) throw new Error(`must be one of ${values.join(', ')}`);
  return found;
}

import type { KeyObject } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import { type Queryable, sql } from '../../../db/client.ts';
import { Batcher } from '../../../lib/batcher.ts';
import { cacheLimit } from '../../../lib/cache-limit.ts';
import { type Clock, sinceMs } from '../../../lib/clock.ts';
import { isId } from '../../../lib/ids.ts';
import { ifOpened, type Sealer } from '../../../lib/seal.ts';
import type { Bus } from '../../ground/bus/messages.ts';
import { isApiKey } from './create.ts';
import { type KeyKind, openKey, type ProjectKey } from './keys.ts';

/** What authentication and rate limits need to know of a project. */
export interface Project {
  readonly id: string;
  readonly name: string;
  readonly apiKey: string;
  /** The keys that verify User JWTs: the current one, then former ones, the newest first. */
  readonly apiSecrets: readonly [ProjectKey, ...ProjectKey[]];
  /** The keys that verify Project JWTs and links in messages. Keys that have ended still verify links. */
  readonly signingKeys: readonly [ProjectKey, ...ProjectKey[]];
  /** The current signing key. */
  readonly signingKey: KeyObject;
  /** The limits that differ from the server's settings. */
  readonly rateLimits: { readonly reads?: number; readonly writes?: number };
  readonly revokedTokens: ReadonlySet<string>;
  /** Whether users of the v1 API must prove who they are by an HMAC. */
  readonly hmacRequired: boolean;
  /** The name that users see, if it differs. */
  readonly displayName: string | null;
  readonly logoUrl: string | null;
  /** The language for users without one. */
  readonly defaultLocale: string | null;
}

type LinkKeys = Project['signingKeys'];

// A change on another node is noticed within FRESH_MS even if its message was lost. Until STALE_MS an entry
// is returned while it is refreshed, so that no request waits. Older entries are not used.
const FRESH_MS = 5_000;
const STALE_MS = 30_000;
const OUTDATED = Number.NEGATIVE_INFINITY;
// A token with an invalid signature may be signed with a key that is new. Clients that send such tokens cause
// one or two statements in this time, which all waiting requests share.
const REREAD_EVERY_MS = 1_000;
const MAX_PROJECTS = 10_000;
// Unknown keys have a cache of their own, so that invented keys do not evict projects.
const MAX_UNKNOWN = 10_000;

/** Caches the projects in use. Look-ups that wait for the database share one statement. */
export class ProjectCache {
  readonly #deps: { db: Queryable; sealer: Sealer; clock: Clock };
  readonly #entries = new LRUCache<string, Entry>(cacheLimit(MAX_PROJECTS));
  readonly #idOfKey = new LRUCache<string, string>(cacheLimit(MAX_PROJECTS));
  readonly #unknown = new LRUCache<string, number>(cacheLimit(MAX_UNKNOWN));
  readonly #load: Batcher<string, Row | undefined>;
  readonly #unsubscribe: () => void;
  // Counts the messages, so that a row read before a change is not kept after it.
  #changes = 0;

  constructor({ db, sealer, clock, bus }: { db: Queryable; sealer: Sealer; clock: Clock; bus: Bus }) {
    this.#deps = { db, sealer, clock };
    this.#load = new Batcher({ run: (names) => this.#read(names), concurrency: 1, maxItems: 500 });
    this.#unsubscribe = bus.subscribe((message) => {
      if (message.type === 'project_changed') this.#outdate(message.projectId);
      else if (message.type === 'missed') this.#outdateAll();
    });
  }

  /**
   * Returns the project of an API key, if there is one. Returns a promise only if it queries the database.
   */
  byApiKey(apiKey: string): Project | undefined | Promise<Project | undefined> {
    if (!isApiKey(apiKey)) return undefined;
    const id = this.#idOfKey.get(apiKey);
    return id === undefined ? this.#missing(apiKey) : this.byId(id);
  }

  /** Returns the project of an id, if there is one. Returns a promise only if it queries the database. */
  byId(id: string): Project | undefined | Promise<Project | undefined> {
    const entry = this.#entries.get(id);
    if (entry === undefined) return isId(id) ? this.#missing(id.toLowerCase()) : undefined;
    const ageMs = sinceMs(this.#deps.clock, entry.loadedAt);
    if (ageMs < FRESH_MS) return entry.project;
    if (ageMs >= STALE_MS) return this.#fetch(id);
    if (!entry.refreshing) {
      entry.refreshing = true;
      // No request waits for it. If it fails, the entry ages until a request queries the database itself.
      this.#fetch(id).catch(() => {
        entry.refreshing = false;
      });
    }
    return entry.project;
  }

  /** Whether a project is in memory: its link keys need no query then. */
  has(id: string): boolean {
    return this.#entries.has(id);
  }

  /**
   * Returns the keys that verify a project's links, if it exists. While the database is unavailable, returns
   * the keys that were read last, so that links in messages still work.
   */
  linkKeys(id: string): LinkKeys | undefined | Promise<LinkKeys | undefined> {
    const known = this.#entries.get(id)?.project;
    const project = this.byId(id);
    if (!(project instanceof Promise)) return project?.signingKeys;
    if (known === undefined) return project.then((found) => found?.signingKeys);
    project.catch(() => {}); // the next call queries the database
    return known.signingKeys;
  }

  /**
   * Returns the project for a token that no key of `known` has signed, since a key may just have been rolled:
   * from the cache if that is newer, else from the database. Returns `known` if a query within the last
   * second found nothing newer.
   */
  newerThan(known: Project): Project | undefined | Promise<Project | undefined> {
    const entry = this.#entries.get(known.id);
    if (entry !== undefined && entry.project !== known && entry.loadedAt !== OUTDATED) return entry.project;
    const unchangedMs = sinceMs(this.#deps.clock, entry?.foundUnchangedAt ?? OUTDATED);
    return unchangedMs < REREAD_EVERY_MS ? known : this.#reread(known);
  }

  async #reread(known: Project): Promise<Project | undefined> {
    const found = await this.#fetch(known.id);
    const entry = this.#entries.get(known.id);
    if (found === known && entry !== undefined) entry.foundUnchangedAt = this.#deps.clock.now();
    return found;
  }

  /** Ends the subscription. Do not use the cache afterwards. */
  close(): void {
    this.#unsubscribe();
    this.#entries.clear();
    this.#idOfKey.clear();
    this.#unknown.clear();
  }

  #missing(name: string): undefined | Promise<Project | undefined> {
    const checkedAt = this.#unknown.get(name);
    if (checkedAt !== undefined && sinceMs(this.#deps.clock, checkedAt) < FRESH_MS) return undefined;
    return this.#fetch(name);
  }

  async #fetch(name: string): Promise<Project | undefined> {
    const changes = this.#changes;
    const row = await this.#load.add(name);
    // A row that was read during a change serves the requests that waited for it. The next one reads again.
    const loadedAt = changes === this.#changes ? this.#deps.clock.now() : OUTDATED;
    if (row !== undefined) return this.#keep(row, loadedAt);
    this.#unknown.set(name, loadedAt);
    this.#entries.delete(name);
    return undefined;
  }

  /** Returns the same object as long as the row is unchanged, so that callers can use it as a key. */
  #keep(row: Row, loadedAt: number): Project {
    const fingerprint = JSON.stringify(row);
    const known = this.#entries.get(row.id);
    const project = known?.fingerprint === fingerprint ? known.project : this.#open(row);
    this.#entries.set(row.id, {
      project,
      fingerprint,
      loadedAt,
      refreshing: false,
      foundUnchangedAt: known?.project === project ? known.foundUnchangedAt : OUTDATED,
    });
    this.#idOfKey.set(row.api_key, row.id);
    this.#unknown.delete(row.id);
    this.#unknown.delete(row.api_key);
    return project;
  }

  #open(row: Row): Project {
    const former = row.former_keys === null ? [] : (JSON.parse(row.former_keys) as FormerKey[]);
    const keysOf = (kind: KeyKind, sealed: Buffer): [ProjectKey, ...ProjectKey[]] => {
      const open = (one: Buffer, validUntilMs: number) =>
        openKey(this.#deps.sealer, { projectId: row.id, kind, sealed: one, validUntilMs });
      return [
        open(sealed, Number.POSITIVE_INFINITY),
        ...former
          .filter((one) => one.kind === kind)
          .flatMap((one) =>
            ifOpened(() =>
              open(Buffer.from(one.sealed, 'base64'), one.ended ? 0 : Date.parse(one.valid_until)),
            ),
          ),
      ];
    };
    const signingKeys = keysOf('signing_key', row.sealed_signing_key);
    return {
      id: row.id,
      name: row.name,
      apiKey: row.api_key,
      apiSecrets: keysOf('api_secret', row.sealed_api_secret),
      signingKeys,
      signingKey: signingKeys[0].key,
      rateLimits: row.rate_limits === null ? {} : (JSON.parse(row.rate_limits) as Project['rateLimits']),
      revokedTokens: new Set(row.revoked),
      hmacRequired: row.hmac_required,
      displayName: row.display_name,
      logoUrl: row.logo_url,
      defaultLocale: row.default_locale,
    };
  }

  #outdate(id: string): void {
    this.#changes += 1;
    const entry = this.#entries.get(id);
    if (entry !== undefined) outdate(entry);
    this.#unknown.delete(id); // it may just have been created on another node
  }

  #outdateAll(): void {
    this.#changes += 1;
    for (const entry of this.#entries.values()) outdate(entry);
    this.#unknown.clear();
  }

  async #read(names: string[]): Promise<(Row | undefined)[]> {
    const ids = names.filter(isId);
    const keys = names.filter((name) => !isId(name));
    const rows = await this.#deps.db.query<Row>(readProjects, [ids, keys]);
    const found = new Map(
      rows.flatMap((row) => [
        [row.id, row],
        [row.api_key, row],
      ]),
    );
    return names.map((name) => found.get(name));
  }
}

/** Makes the next look-up read the project again. Until then the entry only verifies links. */
function outdate(entry: Entry): void {
  entry.fingerprint = ''; // the next object is a new one, so that cached tokens are verified again
  entry.loadedAt = OUTDATED;
  entry.foundUnchangedAt = OUTDATED;
}

interface Entry {
  project: Project;
  fingerprint: string;
  /** OUTDATED after a change of the project. */
  loadedAt: number;
  refreshing: boolean;
  /** When a reread because of an invalid token last found nothing newer. */
  foundUnchangedAt: number;
}

interface FormerKey {
  kind: KeyKind;
  /** As base64. */
  sealed: string;
  valid_until: string;
  /** By the database's clock, so that a slow clock of a node does not extend the key's validity. */
  ended: boolean;
}

interface Row {
  id: string;
  name: string;
  api_key: string;
  sealed_api_secret: Buffer;
  sealed_signing_key: Buffer;
  rate_limits: string | null;
  hmac_required: boolean;
  display_name: string | null;
  logo_url: string | null;
  default_locale: string | null;
  revoked: string[];
  former_keys: string | null;
}

// projects_pkey or projects_api_key_key, then project_tokens_of_project and former_project_keys_pkey.
const readProjects = sql(
  'read_projects',
  `select p.id, p.name, p.api_key, p.sealed_api_secret, p.sealed_signing_key, p.rate_limits,
    p.hmac_required, p.display_name, p.logo_url, p.default_locale,
    array(
      select t.jti::text
      from project_tokens t
      where t.project_id = p.id and t.revoked_at is not null
      order by t.jti
    ) as revoked,
    (
      select json_agg(
        json_build_object(
          'kind', f.kind,
          'sealed', translate(encode(f.sealed_key, 'base64'), E'\\n', ''),
          'valid_until', f.valid_until,
          'ended', f.valid_until <= now()
        )
        order by f.created_at desc, f.id
      )
      from former_project_keys f
      where f.project_id = p.id
    ) as former_keys
  from projects p
  where p.id = any($1::uuid[]) or p.api_key = any($2::text[])`,
);

import { uuidArray } from '../../../db/arrays.ts';
import { type Database, isOfOneItem, sql } from '../../../db/client.ts';
import { Batcher } from '../../../lib/batcher.ts';
import { OLDEST } from '../../../lib/cursor.ts';
import type { Logger } from '../../../lib/log.ts';
import { waitMs } from '../../../lib/wait.ts';
import type { Bus } from '../../ground/bus/messages.ts';
import { recordEvents } from '../../ground/events/record.ts';
import { discarded } from './events.ts';
import type { GoneToken } from './gone-token.ts';

interface Deps {
  db: Pick<Database, 'query' | 'transaction'>;
  bus: Bus;
  log: Pick<Logger, 'warn'>;
}

const LINGER_MS = 50;
const MAX_TOKENS = 1_000;
// How long they are kept while the database is unavailable. The next message to a lost one reports it again.
const KEEP_TRYING_MS = 120_000;
const RETRY_EVERY_MS = 250;

/**
 * Discards tokens that providers report as gone: up to a thousand in a transaction. A token that was saved
 * after that stays.
 */
export class TokenDiscarder {
  readonly #deps: Deps;
  readonly #batcher: Batcher<GoneToken, undefined>;
  #closing = false;

  constructor(deps: Deps) {
    this.#deps = deps;
    this.#batcher = new Batcher({
      run: (gone) => this.#run(gone),
      concurrency: 1,
      maxItems: MAX_TOKENS,
      lingerMs: LINGER_MS,
      splitAfter: isOfOneItem,
    });
  }

  /** Adds tokens to the next batch. Logs tokens that it cannot discard. */
  add(gone: readonly GoneToken[]): void {
    this.discard(gone).catch((error: unknown) => {
      this.#deps.log.warn(
        { err: error },
        'invalid tokens could not be discarded; the provider reports them again',
      );
    });
  }

  /** Resolves when the tokens are discarded. */
  async discard(gone: readonly GoneToken[]): Promise<void> {
    await Promise.all(gone.map((one) => this.#batcher.add(one)));
  }

  /** Discards the remaining tokens, without waiting for an unavailable database. */
  async close(): Promise<void> {
    this.#closing = true;
    await this.#batcher.drained();
  }

  async #run(gone: GoneToken[]): Promise<undefined[]> {
    await this.#again(() => discardBatch(this.#deps, gone));
    for (const installation of installationsOf(gone)) {
      let place: Place | undefined = { public_id: '', user_id: OLDEST, id: OLDEST };
      while (place !== undefined) {
        const from: Place = place;
        place = await this.#again(() => discardPage(this.#deps, installation, from));
      }
    }
    return gone.map(() => undefined);
  }

  async #again<Result>(work: () => Promise<Result>): Promise<Result> {
    const until = performance.now() + KEEP_TRYING_MS;
    for (;;) {
      try {
        return await work();
      } catch (error) {
        if (isOfOneItem(error) || this.#closing || performance.now() > until) throw error;
        await waitMs(RETRY_EVERY_MS);
      }
    }
  }
}

type Installation = GoneToken & { installationId: string };

/** Returns the installations that are gone, without duplicates. */
function installationsOf(gone: readonly GoneToken[]): Installation[] {
  const found = new Map<string, Installation>();
  for (const one of gone) {
    const { installationId, projectId, channel } = one;
    if (one.scope !== 'installation' || installationId === undefined) continue;
    const name = JSON.stringify([projectId, channel, installationId]);
    const held = found.get(name);
    found.set(name, { ...later(held, one), installationId });
  }
  return [...found.values()];
}

/** Returns the one of two reports that discards more. */
function later(held: GoneToken | undefined, one: GoneToken): GoneToken {
  if (held === undefined) return one;
  if (held.goneAt === undefined || one.goneAt === undefined) return held.goneAt === undefined ? held : one;
  return held.goneAt < one.goneAt ? one : held;
}

interface Place {
  public_id: string;
  user_id: string;
  id: string;
}

/** Discards a page of an installation's tokens. Returns where to continue, if there are more. */
async function discardPage(deps: Deps, installation: Installation, from: Place): Promise<Place | undefined> {
  const { projectId, channel, installationId } = installation;
  // In byte order, texts that start with `<id>-` are before those that start with `<id>.`.
  const range = [projectId, `${installationId}-`, `${installationId}.`, channel];
  const tokens = await deps.db.query<Place>(selectOfInstallation, [
    ...range,
    from.public_id,
    from.user_id,
    from.id,
    MAX_TOKENS,
  ]);
  await discardBatch(
    deps,
    tokens.map(({ user_id: userId, id: tokenId }) => ({ ...installation, userId, tokenId })),
  );
  return tokens.length < MAX_TOKENS ? undefined : tokens.at(-1);
}

async function discardBatch({ db, bus }: Deps, gone: readonly GoneToken[]): Promise<void> {
  if (gone.length === 0) return;
  const once = new Map<string, GoneToken>();
  for (const one of gone) once.set(one.tokenId, later(once.get(one.tokenId), one));
  const tokens = [...once.values()];
  const users = uuidArray(tokens.map(({ userId }) => userId));
  const ids = uuidArray(tokens.map(({ tokenId }) => tokenId));
  const done = await db.transaction(async (tx) => {
    // Locks the owners first, as save.ts does, so that no token is saved or moved meanwhile.
    await tx.query(lockOwners, [users, ids]);
    const rows = await tx.query<Discarded>(discardTokens, [users, ids, tokens.map(({ goneAt }) => goneAt)]);
    await recordEvents(
      tx,
      rows.map(({ project_id: projectId, user_id: userId, channel, id, public_id, place }) => {
        const { reason, code } = tokens[place - 1] ?? {};
        return discarded({ projectId, userId, channel }, public_id ?? id, { log: reason, code });
      }),
    );
    return rows;
  });
  for (const { user_id: userId, id: tokenId } of done)
    bus.publish({ type: 'token_discarded', userId, tokenId });
}

interface Discarded {
  project_id: string;
  user_id: string;
  channel: string;
  id: string;
  public_id: string | null;
  place: number;
}

// Primary keys of tokens and token_owners. Chat tokens have no owners.
const lockOwners = sql(
  'lock_owners_of_gone_tokens',
  `select count(*)
  from (
    select o.token_id
    from unnest($1::uuid[], $2::uuid[]) as gone (user_id, id)
    join tokens t on t.user_id = gone.user_id and t.id = gone.id and t.discarded_at is null
    join token_owners o
      on o.project_id = t.project_id and o.channel = t.channel and o.hash = t.hash
        and o.user_id = t.user_id and o.token_id = t.id
    order by o.project_id, o.channel, o.hash
    for update of o
  ) locked`,
);
// Primary keys, all of them. Locks in a fixed order, because only this locks tokens of chats.
const discardTokens = sql(
  'discard_gone_tokens',
  `with locked as (
    select t.user_id, t.id, gone.place
    from unnest($1::uuid[], $2::uuid[], $3::timestamptz[]) with ordinality
      as gone (user_id, id, gone_at, place)
    join tokens t on t.user_id = gone.user_id and t.id = gone.id
    where t.discarded_at is null
      and (gone.gone_at is null or greatest(t.created_at, t.updated_at, t.saved_at) <= gone.gone_at)
    order by t.user_id, t.id
    for update of t
  ),
  done as (
    update tokens t
    set discarded_at = now()
    from locked
    where t.user_id = locked.user_id and t.id = locked.id
    returning t.project_id, t.user_id, t.channel, t.id, t.public_id, t.hash, locked.place
  ),
  freed as (
    delete from token_owners o
    using done
    where o.project_id = done.project_id and o.channel = done.channel and o.hash = done.hash
      and o.user_id = done.user_id and o.token_id = done.id
  )
  select project_id, user_id, channel, id, public_id, place from done`,
);
// Index tokens_of_installation. Slack's ids have no hyphen: a second one belongs to another installation with
// the same prefix.
const selectOfInstallation = sql(
  'tokens_of_gone_installation',
  `select t.public_id, t.user_id, t.id
  from tokens t
  where t.project_id = $1
    and t.public_id collate "C" >= $2
    and t.public_id collate "C" < $3
    and t.public_id is not null
    and t.discarded_at is null
    and t.channel = $4
    and strpos(substr(t.public_id, length($2) + 1), '-') = 0
    and (t.public_id collate "C", t.user_id, t.id) > ($5, $6, $7)
  order by t.public_id collate "C", t.user_id, t.id
  limit $8`,
);

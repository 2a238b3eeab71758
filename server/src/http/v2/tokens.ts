import type { Static } from 'typebox';
import { PageQuery, page } from '../../contract/common.ts';
import { DiscardResult, PublicTokenIdInPath, PublicTokenPageQuery, TokenId } from '../../contract/token.ts';
import { privateHostProblems, rejectPrivateHosts } from '../../domain/ground/requests/private-hosts.ts';
import { discardToken } from '../../domain/people/tokens/discard.ts';
import { MAX_ACTIVE_TOKENS } from '../../domain/people/tokens/discard-oldest.ts';
import { getToken, listTokens, recordId, tokenJson } from '../../domain/people/tokens/list.ts';
import { saveToken } from '../../domain/people/tokens/save.ts';
import { ClientError } from '../../errors.ts';
import type { Cursor } from '../../lib/cursor.ts';
import { pascalCase } from '../../lib/pascal-case.ts';
import { integrations } from '../../providers/index.ts';
import type { Integration, TokenCollection, TokenMembers } from '../../providers/provider.ts';
import { type RawJson, rawJson, rawPage } from '../reply.ts';
import { type App, type Call, userRoute } from '../route.ts';
import { routeOfUser } from '../route-of-user.ts';

const tags: [string] = ['Channel tokens'];

/** Registers the token collections of all integrations, for users and for projects. */
export function tokenRoutes(app: App): void {
  for (const { name, tokens } of Object.values(integrations) as Integration[]) {
    if (tokens === undefined) continue;
    const of = { ...tokens, name: pascalCase(name), path: tokens.path ?? tokens.collection };
    save(app, of);
    readAndDiscard(app, of);
  }
}

interface Collection extends TokenCollection {
  /** Part of the operation ids: `saveInboxToken`. */
  name: string;
  /** Part of the paths: `/channels/<path>/tokens`. */
  path: string;
}

const SAVED_AGAIN = {
  device:
    'Saving a token again updates its record. A token of another user moves to this user, and a discarded ' +
    'token becomes active again under a new id.',
  shared:
    'Saving a token again updates its record; several users can have the same token. A discarded token ' +
    'becomes active again under a new id.',
};

const LIST = 'Discarded tokens are not listed; get them by their id.';
const GET = 'Returns a token with its secrets. `discarded_at` of an active token is `null`.';
const DISCARD =
  'Nothing is delivered to the token from then on, and its connections are closed. Discarding it again ' +
  'returns the same.';
const MOST = ` A channel of a user has at most ${MAX_ACTIVE_TOKENS} active tokens; the oldest is discarded.`;

function save(app: App, tokens: Collection): void {
  const { name, path, hosts = [], hasPublicIds = false, savedAgain = SAVED_AGAIN[tokens.kind] } = tokens;
  userRoute(app, {
    method: 'PUT',
    url: `/channels/${path}/tokens`,
    operationId: `save${name}Token`,
    summary: 'Save a token',
    description: `${savedAgain}${MOST}`,
    tags,
    body: tokens.save,
    refuseUnknown: hasPublicIds,
    alsoWrong: ({ body }) => privateHostProblems(app.context, hosts, body),
    reply: { 200: tokens.saved },
    async handler({ owner, body, context }) {
      await rejectPrivateHosts(context, hosts, body);
      return rawJson(JSON.stringify(await saveToken(context, tokens, owner, body as TokenMembers)));
    },
  });
}

function readAndDiscard(app: App, tokens: Collection): void {
  const { name, path, token, hasPublicIds = false } = tokens;
  const url = `/channels/${path}/tokens`;
  const params = hasPublicIds ? PublicTokenIdInPath : TokenId;

  routeOfUser(app, {
    method: 'GET',
    url,
    operationId: `list${name}Tokens`,
    summary: 'List the active tokens of the user, newest first',
    forProject: { summary: 'List the active tokens of a user, newest first' },
    description: LIST,
    tags,
    query: hasPublicIds ? PublicTokenPageQuery : PageQuery,
    reply: { 200: page(token) },
    handler: (call) => list(call, tokens, call.user.id),
  });

  routeOfUser(app, {
    method: 'GET',
    url: `${url}/:token_id`,
    operationId: `get${name}Token`,
    summary: 'Get a token, active or discarded',
    forProject: { summary: 'Get a token of a user, active or discarded' },
    description: GET,
    tags,
    params,
    reply: { 200: token },
    handler: (call) => get(call, tokens, call.user.id),
  });

  routeOfUser(app, {
    method: 'DELETE',
    url: `${url}/:token_id`,
    operationId: `discard${name}Token`,
    summary: 'Discard a token for good',
    forProject: { summary: 'Discard a token of a user for good' },
    description: DISCARD,
    tags,
    params,
    reply: { 200: DiscardResult },
    handler: (call) => discard(call, tokens.collection, { projectId: call.project.id, userId: call.user.id }),
  });
}

type TokenCall = Pick<Call<{ token_id: string }, unknown, unknown>, 'params' | 'context'>;

async function list(
  call: Pick<Call<unknown, PageQuery, unknown>, 'query' | 'paginate' | 'context'>,
  tokens: Collection,
  userId: string,
): Promise<RawJson> {
  const { paginate, context } = call;
  const { collection: channel } = tokens;
  // The list is ordered by the ids of the records, which are also the cursors in the links.
  const query: PageQuery = { ...call.query };
  for (const end of ['starting_after', 'ending_before'] as const) {
    const shownId = query[end];
    if (!shownId) continue;
    const id = await recordId(context.db, userId, channel, shownId);
    if (id === undefined)
      throw new ClientError('validation_failed', [`Param '${end}' is not the id of a record`]);
    query[end] = id;
  }
  const list = await paginate(
    query,
    (cursor) => listShown(context, tokens, userId, cursor),
    ({ json }) => json,
  );
  return rawPage(list);
}

/** The tokens beyond a cursor that can be opened and that version 2 shows. */
async function listShown(
  { db, sealer }: TokenCall['context'],
  tokens: Collection,
  userId: string,
  cursor: Cursor,
): Promise<{ id: string; json: string }[]> {
  // Only an opened token shows whether it is one of them. Few are hidden, so that the first chunk usually has
  // all of them.
  let chunk = cursor.limit;
  const shown: { id: string; json: string }[] = [];
  let { id } = cursor;
  for (;;) {
    const rows = await listTokens(db, userId, tokens.collection, { ...cursor, id, limit: chunk });
    for (const row of rows) {
      const json = tokenJson(sealer, row);
      if (json !== undefined && isShown(tokens, json)) shown.push({ id: row.id, json });
      if (shown.length === cursor.limit) return shown;
    }
    const last = rows.at(-1);
    if (last === undefined || rows.length < chunk) return shown;
    id = last.id;
    chunk = Math.max(cursor.limit, MAX_ACTIVE_TOKENS);
  }
}

async function get({ params, context }: TokenCall, tokens: Collection, userId: string): Promise<RawJson> {
  const { collection: channel } = tokens;
  const id = await recordId(context.db, userId, channel, params.token_id);
  const row = id && (await getToken(context.db, userId, channel, id));
  const json = row && tokenJson(context.sealer, row);
  if (!json || !isShown(tokens, json)) throw new ClientError('not_found');
  return rawJson(json);
}

function isShown(tokens: Collection, json: string): boolean {
  return tokens.isShown?.(JSON.parse(json) as TokenMembers) ?? true;
}

async function discard(
  { params, context }: TokenCall,
  channel: string,
  owner: { projectId: string; userId: string },
): Promise<Static<typeof DiscardResult>> {
  const id = await recordId(context.db, owner.userId, channel, params.token_id);
  const done = id && (await discardToken(context, channel, { ...owner, id }));
  if (!done) throw new ClientError('not_found');
  return { id: done.id, discarded_at: done.at.toISOString() };
}

import { type Static, type TObject, type TSchema, Type } from 'typebox';
import { type Page, PageQuery, page } from '../../contract/common.ts';
import {
  apnsToken,
  ChatTokenIdInPath,
  ChatTokenPageQuery,
  chatToken,
  DiscardResult,
  expoToken,
  fcmToken,
  inboxToken,
  TokenId,
  teamsToken,
  UserInPath,
  webPushToken,
} from '../../contract/token.ts';
import { privateHostProblems, rejectPrivateHosts } from '../../domain/ground/requests/private-hosts.ts';
import {
  apnsTokens,
  expoTokens,
  fcmTokens,
  inboxTokens,
  slackbotTokens,
  slackTokens,
  type TokenChannel,
  teamsTokens,
  webPushTokens,
} from '../../domain/people/tokens/channels.ts';
import { discardToken } from '../../domain/people/tokens/discard.ts';
import { MAX_ACTIVE_TOKENS } from '../../domain/people/tokens/discard-oldest.ts';
import { getToken, listTokens, recordId, tokenJson } from '../../domain/people/tokens/list.ts';
import { saveToken } from '../../domain/people/tokens/save.ts';
import { userExists } from '../../domain/people/users/exists.ts';
import { ClientError } from '../../errors.ts';
import { type NamedHost, urlMember } from '../../lib/named-host.ts';
import { type RawJson, rawJson } from '../reply.ts';
import { type App, type Call, projectRoute, userRoute } from '../route.ts';

/** Registers the token collections, for users and for projects. */
export function tokenRoutes(app: App): void {
  collection(app, { name: 'Inbox', path: 'in_app/inbox', channel: inboxTokens, ...inboxToken });
  collection(app, { name: 'Apns', path: 'mobile_push/apns', channel: apnsTokens, ...apnsToken });
  collection(app, { name: 'Expo', path: 'mobile_push/expo', channel: expoTokens, ...expoToken });
  collection(app, { name: 'Fcm', path: 'mobile_push/fcm', channel: fcmTokens, ...fcmToken });
  collection(app, {
    name: 'Slack',
    path: 'slack',
    channel: slackTokens,
    ...chatToken,
    hosts: [urlMember('webhook.url')],
    chat: true,
  });
  collection(app, {
    name: 'Slackbot',
    path: 'slack/<brand>_slackbot',
    channel: slackbotTokens,
    ...chatToken,
    hosts: [urlMember('webhook.url')],
    chat: true,
  });
  collection(app, {
    name: 'Teams',
    path: 'teams',
    channel: teamsTokens,
    ...teamsToken,
    hosts: [urlMember('webhook.url')],
  });
  collection(app, {
    name: 'WebPush',
    path: 'web_push',
    channel: webPushTokens,
    ...webPushToken,
    hosts: WEB_PUSH_HOSTS,
  });
}

interface Collection<Save extends TObject, Saved extends TSchema, Token extends TSchema> {
  /** Part of the operation ids: `saveInboxToken`. */
  name: string;
  /** Part of the paths: `/channels/<path>/tokens`. */
  path: string;
  channel: TokenChannel<Static<Save>>;
  save: Save;
  saved: Saved;
  token: Token;
  /** Members that name a host to send to. */
  hosts?: readonly NamedHost[];
  /** Ids may be those of Slack, and saving rejects unknown headers, cookies and parameters. */
  chat?: boolean;
}

const tags: [string] = ['Channel tokens'];
export const WEB_PUSH_HOSTS = [urlMember('endpoint')];

function collection<Save extends TObject, Saved extends TSchema, Token extends TSchema>(
  app: App,
  of: Collection<Save, Saved, Token>,
): void {
  save(app, of);
  ofUser(app, of);
  ofProject(app, of);
}

const SAVED_AGAIN = {
  device:
    'Saving a token again updates its record. A token of another user moves to this user, and a discarded ' +
    'token becomes active again under a new id.',
  shared:
    'Saving a token again updates its record; several users can have the same token. A discarded token ' +
    'becomes active again under a new id.',
  chat:
    'A token is the channel in `oauth` or else the address in `webhook`; several users can have the same ' +
    'token. Saving it again updates its record, or makes a new one if it was discarded. With `oauth`, the ' +
    'id of the active record consists of the installation and the channel.',
};

const LIST = 'Discarded tokens are not listed; get them by their id.';
const GET = 'Returns a token with its secrets. `discarded_at` of an active token is `null`.';
const DISCARD =
  'Nothing is delivered to the token from then on, and its connections are closed. Discarding it again ' +
  'returns the same.';
const MOST = ` A channel of a user has at most ${MAX_ACTIVE_TOKENS} active tokens; the oldest is discarded.`;

function save<Save extends TObject, Saved extends TSchema>(
  app: App,
  { name, path, channel, save, saved, hosts = [], chat = false }: Collection<Save, Saved, TSchema>,
): void {
  userRoute(app, {
    method: 'PUT',
    url: `/channels/${path}/tokens`,
    operationId: `save${name}Token`,
    summary: 'Save a token',
    description: `${SAVED_AGAIN[chat ? 'chat' : channel.kind]}${MOST}`,
    tags,
    body: save,
    refuseUnknown: chat,
    alsoWrong: ({ body }) => privateHostProblems(app.context, hosts, body),
    reply: { 200: saved },
    async handler({ user, project, body, context }) {
      await rejectPrivateHosts(context, hosts, body);
      const owner = { projectId: project.id, userId: user.id };
      return rawJson(JSON.stringify(await saveToken(context, channel, owner, body)));
    },
  });
}

/** Reading and discarding, for the user. */
function ofUser<Token extends TSchema>(
  app: App,
  { name, path, channel, token, chat = false }: Collection<TObject, TSchema, Token>,
): void {
  const url = `/channels/${path}/tokens`;
  const params = chat ? ChatTokenIdInPath : TokenId;

  userRoute(app, {
    method: 'GET',
    url,
    operationId: `list${name}Tokens`,
    summary: 'List the active tokens of the user, newest first',
    description: LIST,
    tags,
    query: chat ? ChatTokenPageQuery : PageQuery,
    reply: { 200: page(token) },
    handler: (call) => list(call, channel.name, call.user.id),
  });

  userRoute(app, {
    method: 'GET',
    url: `${url}/:token_id`,
    operationId: `get${name}Token`,
    summary: 'Get a token, active or discarded',
    description: GET,
    tags,
    params,
    reply: { 200: token },
    handler: (call) => get(call, channel.name, call.user.id),
  });

  userRoute(app, {
    method: 'DELETE',
    url: `${url}/:token_id`,
    operationId: `discard${name}Token`,
    summary: 'Discard a token for good',
    description: DISCARD,
    tags,
    params,
    reply: { 200: DiscardResult },
    handler: (call) => discard(call, channel.name, { projectId: call.project.id, userId: call.user.id }),
  });
}

/** Reading and discarding, for the project and any of its users. */
function ofProject<Token extends TSchema>(
  app: App,
  { name, path, channel, token, chat = false }: Collection<TObject, TSchema, Token>,
): void {
  const url = `/users/:user_id/channels/${path}/tokens`;
  const params = Type.Object({
    ...UserInPath.properties,
    ...(chat ? ChatTokenIdInPath : TokenId).properties,
  });

  projectRoute(app, {
    method: 'GET',
    url,
    operationId: `list${name}TokensOfUser`,
    summary: 'List the active tokens of a user, newest first',
    description: LIST,
    tags,
    params: UserInPath,
    query: chat ? ChatTokenPageQuery : PageQuery,
    reply: { 200: page(token) },
    handler: async (call) => list(call, channel.name, (await userOf(call)).userId),
  });

  projectRoute(app, {
    method: 'GET',
    url: `${url}/:token_id`,
    operationId: `get${name}TokenOfUser`,
    summary: 'Get a token of a user, active or discarded',
    description: GET,
    tags,
    params,
    reply: { 200: token },
    handler: async (call) => get(call, channel.name, (await userOf(call)).userId),
  });

  projectRoute(app, {
    method: 'DELETE',
    url: `${url}/:token_id`,
    operationId: `discard${name}TokenOfUser`,
    summary: 'Discard a token of a user for good',
    description: DISCARD,
    tags,
    params,
    reply: { 200: DiscardResult },
    handler: async (call) => discard(call, channel.name, await userOf(call)),
  });
}

type TokenCall = Pick<Call<{ token_id: string }, unknown, unknown>, 'params' | 'context'>;

/** The user in the path. Throws `not_found` unless it is a user of the project. */
async function userOf({
  project,
  params,
  context,
}: Pick<Call<{ user_id: string }, unknown, unknown>, 'params' | 'context'> & {
  project: { id: string };
}): Promise<{ projectId: string; userId: string }> {
  const userId = params.user_id.toLowerCase();
  if (!(await userExists(context.db, project.id, userId))) throw new ClientError('not_found');
  return { projectId: project.id, userId };
}

async function list(
  call: Pick<Call<unknown, PageQuery, unknown>, 'query' | 'paginate' | 'context'>,
  channel: string,
  userId: string,
): Promise<RawJson> {
  const { paginate, context } = call;
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
  const { data, links }: Page<string | undefined> = await paginate(
    query,
    (cursor) => listTokens(context.db, userId, channel, cursor),
    (row) => tokenJson(context.sealer, row),
  );
  const readable = data.filter((text) => text !== undefined);
  return rawJson(`{"data":[${readable.join(',')}],"links":${JSON.stringify(links)}}`);
}

async function get({ params, context }: TokenCall, channel: string, userId: string): Promise<RawJson> {
  const id = await recordId(context.db, userId, channel, params.token_id);
  const row = id && (await getToken(context.db, userId, channel, id));
  const json = row && tokenJson(context.sealer, row);
  if (!json) throw new ClientError('not_found');
  return rawJson(json);
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

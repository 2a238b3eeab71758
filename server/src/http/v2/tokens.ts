import { type Static, type TObject, type TSchema, Type } from 'typebox';
import { Id, PageQuery, page } from '../../contract/common.ts';
import { DiscardResult, InboxToken, SavedInboxToken, SaveInboxToken } from '../../contract/token.ts';
import { inboxTokens, type TokenChannel } from '../../domain/tokens/channels.ts';
import { discardToken } from '../../domain/tokens/discard.ts';
import { getToken, listTokens, type TokenRow } from '../../domain/tokens/list.ts';
import { saveToken } from '../../domain/tokens/save.ts';
import { ClientError } from '../../errors.ts';
import { rawJson } from '../reply.ts';
import { type App, userRoute } from '../route.ts';

/** The token collections, one line each. */
export function tokenRoutes(app: App): void {
  collection(app, {
    channel: inboxTokens,
    name: 'Inbox',
    save: SaveInboxToken,
    saved: SavedInboxToken,
    token: InboxToken,
  });
}

interface Collection<Save extends TObject, Saved extends TSchema, Token extends TSchema> {
  channel: TokenChannel<Static<Save>>;
  /** In the operations' names: `saveInboxToken`. */
  name: string;
  save: Save;
  saved: Saved;
  token: Token;
}

function collection<Save extends TObject, Saved extends TSchema, Token extends TSchema>(
  app: App,
  { channel, name, save, saved, token }: Collection<Save, Saved, Token>,
): void {
  const url = `/channels/${channel.name}/tokens`;
  const tags: [string] = ['Channel tokens'];
  const ById = Type.Object({ token_id: Id });

  userRoute(app, {
    method: 'PUT',
    url,
    operationId: `save${name}Token`,
    summary: 'Save a token',
    description:
      'Saving the same token again updates its record. A token that another user had saved moves to this one; one that was discarded becomes active again under a new id.',
    tags,
    body: save,
    reply: { 200: saved },
    async handler({ user, project, body, context }) {
      const owner = { projectId: project.id, userId: user.id };
      return rawJson(JSON.stringify(await saveToken(context, channel, owner, body)));
    },
  });

  userRoute(app, {
    method: 'GET',
    url,
    operationId: `list${name}Tokens`,
    summary: "List the user's active tokens, newest first",
    tags,
    query: PageQuery,
    reply: { 200: page(token) },
    async handler({ user, query, paginate, context }) {
      const list = await paginate(
        query,
        (cursor) => listTokens(context.db, user.id, channel.name, cursor),
        tokenJson,
      );
      return rawJson(`{"data":[${list.data.join(',')}],"links":${JSON.stringify(list.links)}}`);
    },
  });

  userRoute(app, {
    method: 'GET',
    url: `${url}/:token_id`,
    operationId: `get${name}Token`,
    summary: 'Get a token, active or discarded',
    tags,
    params: ById,
    reply: { 200: token },
    async handler({ user, params, context }) {
      const row = await getToken(context.db, user.id, channel.name, params.token_id);
      if (row === undefined) throw new ClientError('not_found');
      return rawJson(tokenJson(row));
    },
  });

  userRoute(app, {
    method: 'DELETE',
    url: `${url}/:token_id`,
    operationId: `discard${name}Token`,
    summary: 'Discard a token for good',
    description:
      'Nothing is delivered to it any more, and its connections are closed. Discarding it again answers the same.',
    tags,
    params: ById,
    reply: { 200: DiscardResult },
    async handler({ user, project, params, context }) {
      const id = params.token_id.toLowerCase();
      const at = await discardToken(context, channel.name, { projectId: project.id, userId: user.id, id });
      if (at === undefined) throw new ClientError('not_found');
      return { id, discarded_at: at.toISOString() };
    },
  });
}

function tokenJson({ id, data, created_at, updated_at, discarded_at }: TokenRow): string {
  const times = JSON.stringify({ created_at, updated_at, discarded_at });
  return `{"id":${JSON.stringify(id)},${data.slice(1, -1)},${times.slice(1)}`;
}

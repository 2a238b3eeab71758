import { Type } from 'typebox';
import { described, Id, NoContent, PageQuery } from '../../contract/common.ts';
import {
  ReplayWebhook,
  RotatedSecret,
  SaveWebhook,
  Webhook,
  WebhookDeliveryPage,
  WebhookDeliveryQuery,
  WebhookPage,
  WebhookSecret,
} from '../../contract/webhook.ts';
import { listMessages, toDelivery } from '../../domain/after/webhooks/messages.ts';
import { replayMessages } from '../../domain/after/webhooks/replays.ts';
import { getSecret } from '../../domain/after/webhooks/secrets.ts';
import {
  deleteWebhook,
  getWebhook,
  listWebhooks,
  rotateSecret,
  saveWebhook,
  toWebhook,
} from '../../domain/after/webhooks/webhooks.ts';
import { privateHostProblems, rejectPrivateHosts } from '../../domain/ground/requests/private-hosts.ts';
import { ClientError } from '../../errors.ts';
import { urlMember } from '../../lib/named-host.ts';
import { found } from '../found.ts';
import { type App, projectRoute } from '../route.ts';

const tags: [string] = ['Webhooks'];
const ById = Type.Object({ webhook_id: described(Id, 'The id of the webhook.') });
const HOSTS = [urlMember('url')];

/** Registers `/webhooks`: the webhooks of a project, their secrets and their messages. */
export function webhookRoutes(app: App): void {
  recordRoutes(app);
  secretRoutes(app);
  messageRoutes(app);
}

function recordRoutes(app: App): void {
  projectRoute(app, {
    method: 'PUT',
    url: '/webhooks',
    operationId: 'saveWebhook',
    summary: 'Create or change a webhook',
    description:
      'Belfry sends each event of the chosen types to `url`, signed according to Standard Webhooks. It ' +
      'retries for a day until a server responds 2xx; `410 Gone`, or five days without a success, ' +
      'disable the webhook. A message may arrive twice, with the same `webhook-id`. A project has at ' +
      'most 50 webhooks.',
    tags,
    body: SaveWebhook,
    alsoWrong: ({ body }) => privateHostProblems(app.context, HOSTS, body),
    reply: { 200: Webhook },
    async handler({ project, body, context }) {
      await rejectPrivateHosts(context, HOSTS, body);
      return toWebhook(context.sealer, found(await saveWebhook(context, project.id, body)));
    },
  });

  projectRoute(app, {
    method: 'GET',
    url: '/webhooks',
    operationId: 'listWebhooks',
    summary: 'List the webhooks, newest first',
    description: 'Returns the webhooks without their secrets, also disabled ones.',
    tags,
    query: PageQuery,
    reply: { 200: WebhookPage },
    async handler({ project, query, paginate, context }) {
      return paginate(
        query,
        (cursor) => listWebhooks(context.db, project.id, cursor),
        (row) => toWebhook(context.sealer, row),
      );
    },
  });

  projectRoute(app, {
    method: 'GET',
    url: '/webhooks/:webhook_id',
    operationId: 'getWebhook',
    summary: 'Get a webhook',
    description: 'Returns the webhook without its secret: whether it is enabled, and since when it fails.',
    tags,
    params: ById,
    reply: { 200: Webhook },
    async handler({ project, params, context }) {
      return toWebhook(context.sealer, found(await getWebhook(context.db, project.id, params.webhook_id)));
    },
  });

  projectRoute(app, {
    method: 'DELETE',
    url: '/webhooks/:webhook_id',
    operationId: 'deleteWebhook',
    summary: 'Delete a webhook',
    description:
      'No further messages are sent, and the secret is deleted at once. The records of its messages are ' +
      'purged later.',
    tags,
    params: ById,
    reply: { 204: NoContent },
    async handler({ project, params, context }) {
      if (!(await deleteWebhook(context, project.id, params.webhook_id.toLowerCase())))
        throw new ClientError('not_found');
    },
  });
}

function secretRoutes(app: App): void {
  projectRoute(app, {
    method: 'GET',
    url: '/webhooks/:webhook_id/secret',
    operationId: 'getWebhookSecret',
    summary: 'Get the secret of a webhook',
    description:
      'Returns the secret that its messages are signed with and, for a day after a rotation, the ' +
      'previous one.',
    tags,
    params: ById,
    reply: { 200: WebhookSecret },
    async handler({ project, params, context }) {
      return found(await getSecret(context, project.id, params.webhook_id.toLowerCase()));
    },
  });

  projectRoute(app, {
    method: 'POST',
    url: '/webhooks/:webhook_id/secret/rotate',
    operationId: 'rotateWebhookSecret',
    summary: 'Rotate the secret of a webhook',
    description:
      'Creates a new secret. For a day messages are signed with both secrets, so that receivers can ' +
      'change without a gap.',
    tags,
    params: ById,
    reply: { 200: RotatedSecret },
    async handler({ project, params, context }) {
      const until = found(await rotateSecret(context, project.id, params.webhook_id.toLowerCase()));
      return { former_secret_until: until.toISOString() };
    },
  });
}

function messageRoutes(app: App): void {
  projectRoute(app, {
    method: 'GET',
    url: '/webhooks/:webhook_id/deliveries',
    operationId: 'listWebhookDeliveries',
    summary: 'List the messages of a webhook, newest event first',
    description:
      'Returns the messages of the last 30 days that were sent at least once or have failed, with the ' +
      'response of the last attempt.',
    tags,
    params: ById,
    query: WebhookDeliveryQuery,
    reply: { 200: WebhookDeliveryPage },
    async handler({ project, params, query, paginate, context }) {
      const { id } = found(await getWebhook(context.db, project.id, params.webhook_id));
      return paginate(query, (cursor) => listMessages(context.db, id, query.status, cursor), toDelivery);
    },
  });

  projectRoute(app, {
    method: 'POST',
    url: '/webhooks/:webhook_id/replay',
    operationId: 'replayWebhook',
    summary: 'Replay events to a webhook',
    description:
      'Sends one event, or the events of a period, in the background and with their original `webhook-' +
      'id`. At most ten replays of periods run at the same time. Responds 422 if the webhook is ' +
      'disabled.',
    tags,
    params: ById,
    body: ReplayWebhook,
    reply: { 204: NoContent },
    async handler({ project, params, body, context }) {
      await replayMessages(context, project.id, params.webhook_id.toLowerCase(), body);
      context.wake('send_webhook');
    },
  });
}

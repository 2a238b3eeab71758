import { Type } from 'typebox';
import { Id, NoContent, PageQuery } from '../../contract/common.ts';
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
import { deleteWebhook } from '../../domain/after/webhooks/delete.ts';
import { getWebhook, listWebhooks, toWebhook } from '../../domain/after/webhooks/get.ts';
import { listMessages, toDelivery } from '../../domain/after/webhooks/messages.ts';
import { replayMessages } from '../../domain/after/webhooks/replay.ts';
import { saveWebhook } from '../../domain/after/webhooks/save.ts';
import { getSecret, rotateSecret } from '../../domain/after/webhooks/secret.ts';
import { privateHostProblems, rejectPrivateHosts } from '../../domain/ground/requests/private-hosts.ts';
import { ClientError } from '../../errors.ts';
import { urlMember } from '../../lib/named-host.ts';
import { type App, projectRoute } from '../route.ts';

const tags: [string] = ['Webhooks'];
const ById = Type.Object({ webhook_id: Id });
const HOSTS = [urlMember('url')];

/**
 * The project's webhooks: saving, reading, deleting them, their secrets, what was sent to them, and sending
 * it again.
 */
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
      'Events are sent as `{type, timestamp, data}`, `data` being the event as `GET /events/{event_id}` answers it, and signed by the rules of ' +
      'Standard Webhooks. Anything but a 2xx answer is tried again for a day; `410 Gone`, or five days of failures without a success, ' +
      'disable the webhook. A message may come more than once: `webhook-id` is the same then.',
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
    summary: 'Delete a webhook with all that is known of its messages',
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
    summary: "Get the secret that a webhook's messages are signed with",
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
    summary: 'Give a webhook a new secret',
    description: 'For a day messages are signed with both, the new one and the one before.',
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
    summary: 'List what was sent to a webhook, newest event first',
    description: 'Events of the last 30 days that were sent at least once, or given up.',
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
    summary: 'Send events to a webhook again',
    description:
      'One event, or those of a stretch of time. They are sent in the background, with the `webhook-id` that they had.',
    tags,
    params: ById,
    body: ReplayWebhook,
    reply: { 204: NoContent },
    async handler({ project, params, body, context }) {
      await replayMessages(context, project.id, params.webhook_id.toLowerCase(), body);
    },
  });
}

function found<Value>(value: Value | undefined): Value {
  if (value === undefined) throw new ClientError('not_found');
  return value;
}

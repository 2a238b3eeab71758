// Made from openapi.json by `npm run generate`: change the API, not this file.
// biome-ignore-all format: it is written by a program and read in editors, a member at a time
// biome-ignore-all assist/source/organizeImports: likewise
import { Client, segment } from '../client.ts';
import type { EventOf } from '../event-of.ts';
import type { EventStream } from '../event-stream.ts';
import type { RequestOptions, StreamOptions } from '../options.ts';
import type { PageRequest } from '../page-request.ts';
import type { ApnsIntegration, ApnsIntegrationConfig, ApnsToken, Broadcast, BroadcastInput, CategoryDeliveryConfig, ChatToken, DeleteIntegrationQuery, Delivery, DeliveryReplay, DeliveryReplayInput, DeliveryWindows, DiscardedToken, Empty, Event, EventsourceIntegration, EventsourceIntegrationConfig, ExpoIntegration, ExpoIntegrationConfig, ExpoToken, FcmIntegration, FcmIntegrationConfig, FcmToken, GithubIntegration, GithubIntegrationConfig, InboxIntegration, InboxIntegrationConfig, InboxIntegrationConfigInput, InboxToken, Integration, ListBroadcastDeliveriesQuery, ListEventsQuery, ListQuery, ListSuppressionsQuery, ListUsersQuery, ListWebhookDeliveriesQuery, MailgunIntegration, MailgunIntegrationConfig, PingEmailIntegration, PingEmailIntegrationConfig, SaveIntegrationQuery, SendgridIntegration, SendgridIntegrationConfig, SesIntegration, SesIntegrationConfig, SlackIntegration, SlackIntegrationConfig, SlackbotIntegration, SlackbotIntegrationConfig, SmtpIntegration, SmtpIntegrationConfig, StreamEventsQuery, StripeIntegration, StripeIntegrationConfig, Suppression, SuppressionInput, TeamsIntegration, TeamsIntegrationConfig, TeamsToken, Tracking, TwilioIntegration, TwilioIntegrationConfig, User, UserInput, WebPushIntegration, WebPushIntegrationConfig, WebPushToken, Webhook, WebhookDelivery, WebhookInput, WebhookReplayInput, WebhookSecret, WebhookSecretRotation } from './types.ts';

/** Speaks for a whole project with its Project JWT: for your servers, never for a browser. */
export class ProjectClient extends Client {
  /** One message to many users. */
  readonly broadcasts = {
    /**
     * Send a broadcast to up to 1000 recipients.
     * Each user addressed gets one notification; users that do not exist yet are created. Answers as soon as the broadcast is safely stored; `status` of the broadcast tells how delivery goes on.
     *
     * `POST /broadcasts`
     */
    create: (body: BroadcastInput, options?: RequestOptions): Promise<Broadcast> =>
      this.request({ method: 'POST', path: '/broadcasts', body }, options),
    /**
     * List the broadcasts of the project, newest first.
     * A page whose texts are very large (16 MiB and more together) may hold fewer than `limit`; `links.next` tells whether there are more.
     *
     * `GET /broadcasts`
     */
    list: (query?: ListQuery, options?: RequestOptions): PageRequest<Broadcast> =>
      this.list('/broadcasts', query, options),
    /**
     * Get a broadcast with the state of its delivery.
     *
     * `GET /broadcasts/{broadcast_id}`
     */
    get: (broadcastId: string, options?: RequestOptions): Promise<Broadcast> =>
      this.request({ method: 'GET', path: `/broadcasts/${segment(broadcastId)}` }, options),
    deliveries: {
      /**
       * List what became of a broadcast, for every user on every channel.
       * Each notification is there once on every channel that was set up when it was sent, whatever became of it. In the order of users' ids, each user's channels together; who is named in a broadcast to a topic comes before its subscribers. A search for a `state` may end a page early: `links.next` tells whether there is more.
       *
       * `GET /broadcasts/{broadcast_id}/deliveries`
       */
      list: (broadcastId: string, query?: ListBroadcastDeliveriesQuery, options?: RequestOptions): PageRequest<Delivery> =>
        this.list(`/broadcasts/${segment(broadcastId)}/deliveries`, query, options),
      /**
       * Send what failed of a broadcast anew.
       * Deliveries that failed, or of users who are named such as were skipped, begin again: it is asked anew whether they are wanted and where the user is reached, they have as long as the first time to succeed, and each has an event `delivery.replayed`. Until they have ended they are `pending` in the `summary` of the broadcast, which stays `processed`. What was sent is never sent again.
       *
       * `POST /broadcasts/{broadcast_id}/deliveries/replay`
       */
      replay: (broadcastId: string, body: DeliveryReplayInput, options?: RequestOptions): Promise<DeliveryReplay> =>
        this.request({ method: 'POST', path: `/broadcasts/${segment(broadcastId)}/deliveries/replay`, body }, options),
    },
  };

  /** What a user received: the inbox's list and states. */
  readonly notifications = {
    /**
     * List what became of a notification on every channel.
     * All of them; there is one page.
     *
     * `GET /notifications/{notification_id}/deliveries`
     */
    listDeliveries: (notificationId: string, options?: RequestOptions): PageRequest<Delivery> =>
      this.list(`/notifications/${segment(notificationId)}/deliveries`, {}, options),
  };

  /** Where a user can be reached. */
  readonly channelTokens = {
    inbox: {
      /**
       * List the active tokens of a user, newest first.
       *
       * `GET /users/{user_id}/channels/in_app/inbox/tokens`
       */
      list: (userId: string, query?: ListQuery, options?: RequestOptions): PageRequest<InboxToken> =>
        this.list(`/users/${segment(userId)}/channels/in_app/inbox/tokens`, query, options),
      /**
       * Get a token of a user, active or discarded.
       *
       * `GET /users/{user_id}/channels/in_app/inbox/tokens/{token_id}`
       */
      get: (userId: string, tokenId: string, options?: RequestOptions): Promise<InboxToken> =>
        this.request({ method: 'GET', path: `/users/${segment(userId)}/channels/in_app/inbox/tokens/${segment(tokenId)}` }, options),
      /**
       * Discard a token of a user for good.
       * Nothing is delivered to it any more, and its connections are closed. Discarding it again answers the same.
       *
       * `DELETE /users/{user_id}/channels/in_app/inbox/tokens/{token_id}`
       */
      discard: (userId: string, tokenId: string, options?: RequestOptions): Promise<DiscardedToken> =>
        this.request({ method: 'DELETE', path: `/users/${segment(userId)}/channels/in_app/inbox/tokens/${segment(tokenId)}` }, options),
    },
    apns: {
      /**
       * List the active tokens of a user, newest first.
       *
       * `GET /users/{user_id}/channels/mobile_push/apns/tokens`
       */
      list: (userId: string, query?: ListQuery, options?: RequestOptions): PageRequest<ApnsToken> =>
        this.list(`/users/${segment(userId)}/channels/mobile_push/apns/tokens`, query, options),
      /**
       * Get a token of a user, active or discarded.
       *
       * `GET /users/{user_id}/channels/mobile_push/apns/tokens/{token_id}`
       */
      get: (userId: string, tokenId: string, options?: RequestOptions): Promise<ApnsToken> =>
        this.request({ method: 'GET', path: `/users/${segment(userId)}/channels/mobile_push/apns/tokens/${segment(tokenId)}` }, options),
      /**
       * Discard a token of a user for good.
       * Nothing is delivered to it any more, and its connections are closed. Discarding it again answers the same.
       *
       * `DELETE /users/{user_id}/channels/mobile_push/apns/tokens/{token_id}`
       */
      discard: (userId: string, tokenId: string, options?: RequestOptions): Promise<DiscardedToken> =>
        this.request({ method: 'DELETE', path: `/users/${segment(userId)}/channels/mobile_push/apns/tokens/${segment(tokenId)}` }, options),
    },
    expo: {
      /**
       * List the active tokens of a user, newest first.
       *
       * `GET /users/{user_id}/channels/mobile_push/expo/tokens`
       */
      list: (userId: string, query?: ListQuery, options?: RequestOptions): PageRequest<ExpoToken> =>
        this.list(`/users/${segment(userId)}/channels/mobile_push/expo/tokens`, query, options),
      /**
       * Get a token of a user, active or discarded.
       *
       * `GET /users/{user_id}/channels/mobile_push/expo/tokens/{token_id}`
       */
      get: (userId: string, tokenId: string, options?: RequestOptions): Promise<ExpoToken> =>
        this.request({ method: 'GET', path: `/users/${segment(userId)}/channels/mobile_push/expo/tokens/${segment(tokenId)}` }, options),
      /**
       * Discard a token of a user for good.
       * Nothing is delivered to it any more, and its connections are closed. Discarding it again answers the same.
       *
       * `DELETE /users/{user_id}/channels/mobile_push/expo/tokens/{token_id}`
       */
      discard: (userId: string, tokenId: string, options?: RequestOptions): Promise<DiscardedToken> =>
        this.request({ method: 'DELETE', path: `/users/${segment(userId)}/channels/mobile_push/expo/tokens/${segment(tokenId)}` }, options),
    },
    fcm: {
      /**
       * List the active tokens of a user, newest first.
       *
       * `GET /users/{user_id}/channels/mobile_push/fcm/tokens`
       */
      list: (userId: string, query?: ListQuery, options?: RequestOptions): PageRequest<FcmToken> =>
        this.list(`/users/${segment(userId)}/channels/mobile_push/fcm/tokens`, query, options),
      /**
       * Get a token of a user, active or discarded.
       *
       * `GET /users/{user_id}/channels/mobile_push/fcm/tokens/{token_id}`
       */
      get: (userId: string, tokenId: string, options?: RequestOptions): Promise<FcmToken> =>
        this.request({ method: 'GET', path: `/users/${segment(userId)}/channels/mobile_push/fcm/tokens/${segment(tokenId)}` }, options),
      /**
       * Discard a token of a user for good.
       * Nothing is delivered to it any more, and its connections are closed. Discarding it again answers the same.
       *
       * `DELETE /users/{user_id}/channels/mobile_push/fcm/tokens/{token_id}`
       */
      discard: (userId: string, tokenId: string, options?: RequestOptions): Promise<DiscardedToken> =>
        this.request({ method: 'DELETE', path: `/users/${segment(userId)}/channels/mobile_push/fcm/tokens/${segment(tokenId)}` }, options),
    },
    slack: {
      /**
       * List the active tokens of a user, newest first.
       *
       * `GET /users/{user_id}/channels/slack/tokens`
       */
      list: (userId: string, query?: ListQuery, options?: RequestOptions): PageRequest<ChatToken> =>
        this.list(`/users/${segment(userId)}/channels/slack/tokens`, query, options),
      /**
       * Get a token of a user, active or discarded.
       *
       * `GET /users/{user_id}/channels/slack/tokens/{token_id}`
       */
      get: (userId: string, tokenId: string, options?: RequestOptions): Promise<ChatToken> =>
        this.request({ method: 'GET', path: `/users/${segment(userId)}/channels/slack/tokens/${segment(tokenId)}` }, options),
      /**
       * Discard a token of a user for good.
       * Nothing is delivered to it any more, and its connections are closed. Discarding it again answers the same.
       *
       * `DELETE /users/{user_id}/channels/slack/tokens/{token_id}`
       */
      discard: (userId: string, tokenId: string, options?: RequestOptions): Promise<DiscardedToken> =>
        this.request({ method: 'DELETE', path: `/users/${segment(userId)}/channels/slack/tokens/${segment(tokenId)}` }, options),
    },
    slackbot: {
      /**
       * List the active tokens of a user, newest first.
       *
       * `GET /users/{user_id}/channels/slack/service_slackbot/tokens`
       */
      list: (userId: string, query?: ListQuery, options?: RequestOptions): PageRequest<ChatToken> =>
        this.list(`/users/${segment(userId)}/channels/slack/service_slackbot/tokens`, query, options),
      /**
       * Get a token of a user, active or discarded.
       *
       * `GET /users/{user_id}/channels/slack/service_slackbot/tokens/{token_id}`
       */
      get: (userId: string, tokenId: string, options?: RequestOptions): Promise<ChatToken> =>
        this.request({ method: 'GET', path: `/users/${segment(userId)}/channels/slack/service_slackbot/tokens/${segment(tokenId)}` }, options),
      /**
       * Discard a token of a user for good.
       * Nothing is delivered to it any more, and its connections are closed. Discarding it again answers the same.
       *
       * `DELETE /users/{user_id}/channels/slack/service_slackbot/tokens/{token_id}`
       */
      discard: (userId: string, tokenId: string, options?: RequestOptions): Promise<DiscardedToken> =>
        this.request({ method: 'DELETE', path: `/users/${segment(userId)}/channels/slack/service_slackbot/tokens/${segment(tokenId)}` }, options),
    },
    teams: {
      /**
       * List the active tokens of a user, newest first.
       *
       * `GET /users/{user_id}/channels/teams/tokens`
       */
      list: (userId: string, query?: ListQuery, options?: RequestOptions): PageRequest<TeamsToken> =>
        this.list(`/users/${segment(userId)}/channels/teams/tokens`, query, options),
      /**
       * Get a token of a user, active or discarded.
       *
       * `GET /users/{user_id}/channels/teams/tokens/{token_id}`
       */
      get: (userId: string, tokenId: string, options?: RequestOptions): Promise<TeamsToken> =>
        this.request({ method: 'GET', path: `/users/${segment(userId)}/channels/teams/tokens/${segment(tokenId)}` }, options),
      /**
       * Discard a token of a user for good.
       * Nothing is delivered to it any more, and its connections are closed. Discarding it again answers the same.
       *
       * `DELETE /users/{user_id}/channels/teams/tokens/{token_id}`
       */
      discard: (userId: string, tokenId: string, options?: RequestOptions): Promise<DiscardedToken> =>
        this.request({ method: 'DELETE', path: `/users/${segment(userId)}/channels/teams/tokens/${segment(tokenId)}` }, options),
    },
    webPush: {
      /**
       * List the active tokens of a user, newest first.
       *
       * `GET /users/{user_id}/channels/web_push/tokens`
       */
      list: (userId: string, query?: ListQuery, options?: RequestOptions): PageRequest<WebPushToken> =>
        this.list(`/users/${segment(userId)}/channels/web_push/tokens`, query, options),
      /**
       * Get a token of a user, active or discarded.
       *
       * `GET /users/{user_id}/channels/web_push/tokens/{token_id}`
       */
      get: (userId: string, tokenId: string, options?: RequestOptions): Promise<WebPushToken> =>
        this.request({ method: 'GET', path: `/users/${segment(userId)}/channels/web_push/tokens/${segment(tokenId)}` }, options),
      /**
       * Discard a token of a user for good.
       * Nothing is delivered to it any more, and its connections are closed. Discarding it again answers the same.
       *
       * `DELETE /users/{user_id}/channels/web_push/tokens/{token_id}`
       */
      discard: (userId: string, tokenId: string, options?: RequestOptions): Promise<DiscardedToken> =>
        this.request({ method: 'DELETE', path: `/users/${segment(userId)}/channels/web_push/tokens/${segment(tokenId)}` }, options),
    },
  };

  /** The providers that a project sends through. */
  readonly integrations = {
    /**
     * List the integrations of all providers with their configs.
     *
     * `GET /integrations`
     */
    list: (query?: ListQuery, options?: RequestOptions): PageRequest<Integration> =>
      this.list('/integrations', query, options),
    apns: {
      /**
       * Save the apns integration.
       * See https://developer.apple.com/documentation/usernotifications/sending-notification-requests-to-apns. Replaces the one that is there. With `id`, which may be any UUID, a project can have several of one provider; of those of a channel the one saved first is used, the others when it fails. Saving over one keeps its place; to move it to the end, delete it and save it again.
       *
       * `PUT /integrations/apns`
       */
      save: (body: ApnsIntegrationConfig, query?: SaveIntegrationQuery, options?: RequestOptions): Promise<ApnsIntegrationConfig> =>
        this.request({ method: 'PUT', path: '/integrations/apns', body, query }, options),
      /**
       * List the apns integrations with their configs.
       *
       * `GET /integrations/apns`
       */
      list: (query?: ListQuery, options?: RequestOptions): PageRequest<ApnsIntegration> =>
        this.list('/integrations/apns', query, options),
      /**
       * Delete the apns integration.
       * The one with this `id`; without one, all of this provider.
       *
       * `DELETE /integrations/apns`
       */
      delete: (query?: DeleteIntegrationQuery, options?: RequestOptions): Promise<Empty> =>
        this.request({ method: 'DELETE', path: '/integrations/apns', query }, options),
    },
    eventsource: {
      /**
       * Save the eventsource integration.
       * See https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md. Replaces the one that is there. With `id`, which may be any UUID, a project can have several of one provider; of those of a channel the one saved first is used, the others when it fails. Saving over one keeps its place; to move it to the end, delete it and save it again.
       *
       * `PUT /integrations/eventsource`
       */
      save: (body: EventsourceIntegrationConfig, query?: SaveIntegrationQuery, options?: RequestOptions): Promise<EventsourceIntegrationConfig> =>
        this.request({ method: 'PUT', path: '/integrations/eventsource', body, query }, options),
      /**
       * List the eventsource integrations with their configs.
       *
       * `GET /integrations/eventsource`
       */
      list: (query?: ListQuery, options?: RequestOptions): PageRequest<EventsourceIntegration> =>
        this.list('/integrations/eventsource', query, options),
      /**
       * Delete the eventsource integration.
       * The one with this `id`; without one, all of this provider.
       *
       * `DELETE /integrations/eventsource`
       */
      delete: (query?: DeleteIntegrationQuery, options?: RequestOptions): Promise<Empty> =>
        this.request({ method: 'DELETE', path: '/integrations/eventsource', query }, options),
    },
    expo: {
      /**
       * Save the expo integration.
       * See https://docs.expo.dev/push-notifications/sending-notifications/. Replaces the one that is there. With `id`, which may be any UUID, a project can have several of one provider; of those of a channel the one saved first is used, the others when it fails. Saving over one keeps its place; to move it to the end, delete it and save it again.
       *
       * `PUT /integrations/expo`
       */
      save: (body: ExpoIntegrationConfig, query?: SaveIntegrationQuery, options?: RequestOptions): Promise<ExpoIntegrationConfig> =>
        this.request({ method: 'PUT', path: '/integrations/expo', body, query }, options),
      /**
       * List the expo integrations with their configs.
       *
       * `GET /integrations/expo`
       */
      list: (query?: ListQuery, options?: RequestOptions): PageRequest<ExpoIntegration> =>
        this.list('/integrations/expo', query, options),
      /**
       * Delete the expo integration.
       * The one with this `id`; without one, all of this provider.
       *
       * `DELETE /integrations/expo`
       */
      delete: (query?: DeleteIntegrationQuery, options?: RequestOptions): Promise<Empty> =>
        this.request({ method: 'DELETE', path: '/integrations/expo', query }, options),
    },
    fcm: {
      /**
       * Save the fcm integration.
       * See https://firebase.google.com/docs/reference/fcm/rest/v1/projects.messages. Replaces the one that is there. With `id`, which may be any UUID, a project can have several of one provider; of those of a channel the one saved first is used, the others when it fails. Saving over one keeps its place; to move it to the end, delete it and save it again.
       *
       * `PUT /integrations/fcm`
       */
      save: (body: FcmIntegrationConfig, query?: SaveIntegrationQuery, options?: RequestOptions): Promise<FcmIntegrationConfig> =>
        this.request({ method: 'PUT', path: '/integrations/fcm', body, query }, options),
      /**
       * List the fcm integrations with their configs.
       *
       * `GET /integrations/fcm`
       */
      list: (query?: ListQuery, options?: RequestOptions): PageRequest<FcmIntegration> =>
        this.list('/integrations/fcm', query, options),
      /**
       * Delete the fcm integration.
       * The one with this `id`; without one, all of this provider.
       *
       * `DELETE /integrations/fcm`
       */
      delete: (query?: DeleteIntegrationQuery, options?: RequestOptions): Promise<Empty> =>
        this.request({ method: 'DELETE', path: '/integrations/fcm', query }, options),
    },
    github: {
      /**
       * Save the github integration.
       * See https://docs.github.com/en/webhooks/using-webhooks/validating-webhook-deliveries. Replaces the one that is there. With `id`, which may be any UUID, a project can have several of one provider; of those of a channel the one saved first is used, the others when it fails. Saving over one keeps its place; to move it to the end, delete it and save it again.
       *
       * `PUT /integrations/github`
       */
      save: (body: GithubIntegrationConfig, query?: SaveIntegrationQuery, options?: RequestOptions): Promise<GithubIntegrationConfig> =>
        this.request({ method: 'PUT', path: '/integrations/github', body, query }, options),
      /**
       * List the github integrations with their configs.
       *
       * `GET /integrations/github`
       */
      list: (query?: ListQuery, options?: RequestOptions): PageRequest<GithubIntegration> =>
        this.list('/integrations/github', query, options),
      /**
       * Delete the github integration.
       * The one with this `id`; without one, all of this provider.
       *
       * `DELETE /integrations/github`
       */
      delete: (query?: DeleteIntegrationQuery, options?: RequestOptions): Promise<Empty> =>
        this.request({ method: 'DELETE', path: '/integrations/github', query }, options),
    },
    inbox: {
      /**
       * Save the inbox integration.
       * See https://www.rfc-editor.org/rfc/rfc5646. Replaces the one that is there. With `id`, which may be any UUID, a project can have several of one provider; of those of a channel the one saved first is used, the others when it fails. Saving over one keeps its place; to move it to the end, delete it and save it again.
       *
       * `PUT /integrations/inbox`
       */
      save: (body: InboxIntegrationConfigInput, query?: SaveIntegrationQuery, options?: RequestOptions): Promise<InboxIntegrationConfig> =>
        this.request({ method: 'PUT', path: '/integrations/inbox', body, query }, options),
      /**
       * List the inbox integrations with their configs.
       *
       * `GET /integrations/inbox`
       */
      list: (query?: ListQuery, options?: RequestOptions): PageRequest<InboxIntegration> =>
        this.list('/integrations/inbox', query, options),
      /**
       * Delete the inbox integration.
       * The one with this `id`; without one, all of this provider.
       *
       * `DELETE /integrations/inbox`
       */
      delete: (query?: DeleteIntegrationQuery, options?: RequestOptions): Promise<Empty> =>
        this.request({ method: 'DELETE', path: '/integrations/inbox', query }, options),
    },
    mailgun: {
      /**
       * Save the mailgun integration.
       * See https://documentation.mailgun.com/docs/mailgun/api-reference/send/mailgun/messages. Replaces the one that is there. With `id`, which may be any UUID, a project can have several of one provider; of those of a channel the one saved first is used, the others when it fails. Saving over one keeps its place; to move it to the end, delete it and save it again.
       *
       * `PUT /integrations/mailgun`
       */
      save: (body: MailgunIntegrationConfig, query?: SaveIntegrationQuery, options?: RequestOptions): Promise<MailgunIntegrationConfig> =>
        this.request({ method: 'PUT', path: '/integrations/mailgun', body, query }, options),
      /**
       * List the mailgun integrations with their configs.
       *
       * `GET /integrations/mailgun`
       */
      list: (query?: ListQuery, options?: RequestOptions): PageRequest<MailgunIntegration> =>
        this.list('/integrations/mailgun', query, options),
      /**
       * Delete the mailgun integration.
       * The one with this `id`; without one, all of this provider.
       *
       * `DELETE /integrations/mailgun`
       */
      delete: (query?: DeleteIntegrationQuery, options?: RequestOptions): Promise<Empty> =>
        this.request({ method: 'DELETE', path: '/integrations/mailgun', query }, options),
    },
    pingEmail: {
      /**
       * Save the ping_email integration.
       * See https://www.rfc-editor.org/rfc/rfc9110#POST. Replaces the one that is there. With `id`, which may be any UUID, a project can have several of one provider; of those of a channel the one saved first is used, the others when it fails. Saving over one keeps its place; to move it to the end, delete it and save it again.
       *
       * `PUT /integrations/ping_email`
       */
      save: (body: PingEmailIntegrationConfig, query?: SaveIntegrationQuery, options?: RequestOptions): Promise<PingEmailIntegrationConfig> =>
        this.request({ method: 'PUT', path: '/integrations/ping_email', body, query }, options),
      /**
       * List the ping_email integrations with their configs.
       *
       * `GET /integrations/ping_email`
       */
      list: (query?: ListQuery, options?: RequestOptions): PageRequest<PingEmailIntegration> =>
        this.list('/integrations/ping_email', query, options),
      /**
       * Delete the ping_email integration.
       * The one with this `id`; without one, all of this provider.
       *
       * `DELETE /integrations/ping_email`
       */
      delete: (query?: DeleteIntegrationQuery, options?: RequestOptions): Promise<Empty> =>
        this.request({ method: 'DELETE', path: '/integrations/ping_email', query }, options),
    },
    sendgrid: {
      /**
       * Save the sendgrid integration.
       * See https://www.twilio.com/docs/sendgrid/api-reference/mail-send/mail-send. Replaces the one that is there. With `id`, which may be any UUID, a project can have several of one provider; of those of a channel the one saved first is used, the others when it fails. Saving over one keeps its place; to move it to the end, delete it and save it again.
       *
       * `PUT /integrations/sendgrid`
       */
      save: (body: SendgridIntegrationConfig, query?: SaveIntegrationQuery, options?: RequestOptions): Promise<SendgridIntegrationConfig> =>
        this.request({ method: 'PUT', path: '/integrations/sendgrid', body, query }, options),
      /**
       * List the sendgrid integrations with their configs.
       *
       * `GET /integrations/sendgrid`
       */
      list: (query?: ListQuery, options?: RequestOptions): PageRequest<SendgridIntegration> =>
        this.list('/integrations/sendgrid', query, options),
      /**
       * Delete the sendgrid integration.
       * The one with this `id`; without one, all of this provider.
       *
       * `DELETE /integrations/sendgrid`
       */
      delete: (query?: DeleteIntegrationQuery, options?: RequestOptions): Promise<Empty> =>
        this.request({ method: 'DELETE', path: '/integrations/sendgrid', query }, options),
    },
    ses: {
      /**
       * Save the ses integration.
       * See https://docs.aws.amazon.com/ses/latest/APIReference-V2/API_SendEmail.html. Replaces the one that is there. With `id`, which may be any UUID, a project can have several of one provider; of those of a channel the one saved first is used, the others when it fails. Saving over one keeps its place; to move it to the end, delete it and save it again.
       *
       * `PUT /integrations/ses`
       */
      save: (body: SesIntegrationConfig, query?: SaveIntegrationQuery, options?: RequestOptions): Promise<SesIntegrationConfig> =>
        this.request({ method: 'PUT', path: '/integrations/ses', body, query }, options),
      /**
       * List the ses integrations with their configs.
       *
       * `GET /integrations/ses`
       */
      list: (query?: ListQuery, options?: RequestOptions): PageRequest<SesIntegration> =>
        this.list('/integrations/ses', query, options),
      /**
       * Delete the ses integration.
       * The one with this `id`; without one, all of this provider.
       *
       * `DELETE /integrations/ses`
       */
      delete: (query?: DeleteIntegrationQuery, options?: RequestOptions): Promise<Empty> =>
        this.request({ method: 'DELETE', path: '/integrations/ses', query }, options),
    },
    slack: {
      /**
       * Save the slack integration.
       * See https://api.slack.com/apps. Replaces the one that is there. With `id`, which may be any UUID, a project can have several of one provider; of those of a channel the one saved first is used, the others when it fails. Saving over one keeps its place; to move it to the end, delete it and save it again.
       *
       * `PUT /integrations/slack`
       */
      save: (body: SlackIntegrationConfig, query?: SaveIntegrationQuery, options?: RequestOptions): Promise<SlackIntegrationConfig> =>
        this.request({ method: 'PUT', path: '/integrations/slack', body, query }, options),
      /**
       * List the slack integrations with their configs.
       *
       * `GET /integrations/slack`
       */
      list: (query?: ListQuery, options?: RequestOptions): PageRequest<SlackIntegration> =>
        this.list('/integrations/slack', query, options),
      /**
       * Delete the slack integration.
       * The one with this `id`; without one, all of this provider.
       *
       * `DELETE /integrations/slack`
       */
      delete: (query?: DeleteIntegrationQuery, options?: RequestOptions): Promise<Empty> =>
        this.request({ method: 'DELETE', path: '/integrations/slack', query }, options),
    },
    slackbot: {
      /**
       * Save the service_slackbot integration.
       * See https://api.slack.com/authentication/oauth-v2. Replaces the one that is there. With `id`, which may be any UUID, a project can have several of one provider; of those of a channel the one saved first is used, the others when it fails. Saving over one keeps its place; to move it to the end, delete it and save it again.
       *
       * `PUT /integrations/service_slackbot`
       */
      save: (body: SlackbotIntegrationConfig, query?: SaveIntegrationQuery, options?: RequestOptions): Promise<SlackbotIntegrationConfig> =>
        this.request({ method: 'PUT', path: '/integrations/service_slackbot', body, query }, options),
      /**
       * List the service_slackbot integrations with their configs.
       *
       * `GET /integrations/service_slackbot`
       */
      list: (query?: ListQuery, options?: RequestOptions): PageRequest<SlackbotIntegration> =>
        this.list('/integrations/service_slackbot', query, options),
      /**
       * Delete the service_slackbot integration.
       * The one with this `id`; without one, all of this provider.
       *
       * `DELETE /integrations/service_slackbot`
       */
      delete: (query?: DeleteIntegrationQuery, options?: RequestOptions): Promise<Empty> =>
        this.request({ method: 'DELETE', path: '/integrations/service_slackbot', query }, options),
    },
    smtp: {
      /**
       * Save the smtp integration.
       * See https://www.rfc-editor.org/rfc/rfc5321. Replaces the one that is there. With `id`, which may be any UUID, a project can have several of one provider; of those of a channel the one saved first is used, the others when it fails. Saving over one keeps its place; to move it to the end, delete it and save it again.
       *
       * `PUT /integrations/smtp`
       */
      save: (body: SmtpIntegrationConfig, query?: SaveIntegrationQuery, options?: RequestOptions): Promise<SmtpIntegrationConfig> =>
        this.request({ method: 'PUT', path: '/integrations/smtp', body, query }, options),
      /**
       * List the smtp integrations with their configs.
       *
       * `GET /integrations/smtp`
       */
      list: (query?: ListQuery, options?: RequestOptions): PageRequest<SmtpIntegration> =>
        this.list('/integrations/smtp', query, options),
      /**
       * Delete the smtp integration.
       * The one with this `id`; without one, all of this provider.
       *
       * `DELETE /integrations/smtp`
       */
      delete: (query?: DeleteIntegrationQuery, options?: RequestOptions): Promise<Empty> =>
        this.request({ method: 'DELETE', path: '/integrations/smtp', query }, options),
    },
    stripe: {
      /**
       * Save the stripe integration.
       * See https://docs.stripe.com/webhooks. Replaces the one that is there. With `id`, which may be any UUID, a project can have several of one provider; of those of a channel the one saved first is used, the others when it fails. Saving over one keeps its place; to move it to the end, delete it and save it again.
       *
       * `PUT /integrations/stripe`
       */
      save: (body: StripeIntegrationConfig, query?: SaveIntegrationQuery, options?: RequestOptions): Promise<StripeIntegrationConfig> =>
        this.request({ method: 'PUT', path: '/integrations/stripe', body, query }, options),
      /**
       * List the stripe integrations with their configs.
       *
       * `GET /integrations/stripe`
       */
      list: (query?: ListQuery, options?: RequestOptions): PageRequest<StripeIntegration> =>
        this.list('/integrations/stripe', query, options),
      /**
       * Delete the stripe integration.
       * The one with this `id`; without one, all of this provider.
       *
       * `DELETE /integrations/stripe`
       */
      delete: (query?: DeleteIntegrationQuery, options?: RequestOptions): Promise<Empty> =>
        this.request({ method: 'DELETE', path: '/integrations/stripe', query }, options),
    },
    teams: {
      /**
       * Save the teams integration.
       * See https://learn.microsoft.com/en-us/microsoftteams/platform/webhooks-and-connectors/how-to/add-incoming-webhook. Replaces the one that is there. With `id`, which may be any UUID, a project can have several of one provider; of those of a channel the one saved first is used, the others when it fails. Saving over one keeps its place; to move it to the end, delete it and save it again.
       *
       * `PUT /integrations/teams`
       */
      save: (body: TeamsIntegrationConfig, query?: SaveIntegrationQuery, options?: RequestOptions): Promise<TeamsIntegrationConfig> =>
        this.request({ method: 'PUT', path: '/integrations/teams', body, query }, options),
      /**
       * List the teams integrations with their configs.
       *
       * `GET /integrations/teams`
       */
      list: (query?: ListQuery, options?: RequestOptions): PageRequest<TeamsIntegration> =>
        this.list('/integrations/teams', query, options),
      /**
       * Delete the teams integration.
       * The one with this `id`; without one, all of this provider.
       *
       * `DELETE /integrations/teams`
       */
      delete: (query?: DeleteIntegrationQuery, options?: RequestOptions): Promise<Empty> =>
        this.request({ method: 'DELETE', path: '/integrations/teams', query }, options),
    },
    twilio: {
      /**
       * Save the twilio integration.
       * See https://www.twilio.com/docs/messaging/api/message-resource. Replaces the one that is there. With `id`, which may be any UUID, a project can have several of one provider; of those of a channel the one saved first is used, the others when it fails. Saving over one keeps its place; to move it to the end, delete it and save it again.
       *
       * `PUT /integrations/twilio`
       */
      save: (body: TwilioIntegrationConfig, query?: SaveIntegrationQuery, options?: RequestOptions): Promise<TwilioIntegrationConfig> =>
        this.request({ method: 'PUT', path: '/integrations/twilio', body, query }, options),
      /**
       * List the twilio integrations with their configs.
       *
       * `GET /integrations/twilio`
       */
      list: (query?: ListQuery, options?: RequestOptions): PageRequest<TwilioIntegration> =>
        this.list('/integrations/twilio', query, options),
      /**
       * Delete the twilio integration.
       * The one with this `id`; without one, all of this provider.
       *
       * `DELETE /integrations/twilio`
       */
      delete: (query?: DeleteIntegrationQuery, options?: RequestOptions): Promise<Empty> =>
        this.request({ method: 'DELETE', path: '/integrations/twilio', query }, options),
    },
    webPush: {
      /**
       * Save the web_push integration.
       * See https://www.rfc-editor.org/rfc/rfc8292. Replaces the one that is there. With `id`, which may be any UUID, a project can have several of one provider; of those of a channel the one saved first is used, the others when it fails. Saving over one keeps its place; to move it to the end, delete it and save it again.
       *
       * `PUT /integrations/web_push`
       */
      save: (body: WebPushIntegrationConfig, query?: SaveIntegrationQuery, options?: RequestOptions): Promise<WebPushIntegrationConfig> =>
        this.request({ method: 'PUT', path: '/integrations/web_push', body, query }, options),
      /**
       * List the web_push integrations with their configs.
       *
       * `GET /integrations/web_push`
       */
      list: (query?: ListQuery, options?: RequestOptions): PageRequest<WebPushIntegration> =>
        this.list('/integrations/web_push', query, options),
      /**
       * Delete the web_push integration.
       * The one with this `id`; without one, all of this provider.
       *
       * `DELETE /integrations/web_push`
       */
      delete: (query?: DeleteIntegrationQuery, options?: RequestOptions): Promise<Empty> =>
        this.request({ method: 'DELETE', path: '/integrations/web_push', query }, options),
    },
  };

  /** Over which channels the notifications of a category go out, and when. */
  readonly categoryDelivery = {
    /**
     * Save on which channels a category goes out.
     * Replaces the config with this key. A category without one goes out on every channel that the project has set up. What users have switched off stays off, unless the category is critical.
     *
     * `PUT /channels`
     */
    saveConfig: (body: CategoryDeliveryConfig, options?: RequestOptions): Promise<CategoryDeliveryConfig> =>
      this.request({ method: 'PUT', path: '/channels', body }, options),
    /**
     * List the configs of the categories, those first saved last first.
     *
     * `GET /channels`
     */
    listConfigs: (query?: ListQuery, options?: RequestOptions): PageRequest<CategoryDeliveryConfig> =>
      this.list('/channels', query, options),
    /**
     * Get the config of a category.
     *
     * `GET /channels/{key}`
     */
    getConfig: (key: string, options?: RequestOptions): Promise<CategoryDeliveryConfig> =>
      this.request({ method: 'GET', path: `/channels/${segment(key)}` }, options),
    /**
     * Delete the config of a category.
     * The category then goes out on every channel that the project has set up.
     *
     * `DELETE /channels/{key}`
     */
    deleteConfig: (key: string, options?: RequestOptions): Promise<void> =>
      this.request({ method: 'DELETE', path: `/channels/${segment(key)}` }, options),
  };

  /** At what times messages may come; at others they wait. */
  readonly deliveryWindows = {
    /**
     * Get when the project's messages go out.
     *
     * `GET /channels/delivery_windows`
     */
    get: (options?: RequestOptions): Promise<DeliveryWindows> =>
      this.request({ method: 'GET', path: '/channels/delivery_windows' }, options),
    /**
     * Save when the project's messages go out.
     * Replaces what was saved before. What comes outside of a window is held until the next one opens, by the clock of each user’s time zone; nothing is dropped for it. A category may have windows of its own, or be `critical`: then it goes out at any time. The inbox always shows everything at once.
     *
     * `PUT /channels/delivery_windows`
     */
    save: (body: DeliveryWindows, options?: RequestOptions): Promise<DeliveryWindows> =>
      this.request({ method: 'PUT', path: '/channels/delivery_windows', body }, options),
  };

  /** Whether opens and clicks are recorded. */
  readonly tracking = {
    /**
     * Get whether opens and clicks are recorded.
     *
     * `GET /tracking`
     */
    get: (options?: RequestOptions): Promise<Tracking> =>
      this.request({ method: 'GET', path: '/tracking' }, options),
    /**
     * Save whether opens and clicks are recorded.
     * Neither is, unless it is switched on here. It counts for what is sent from then on; once it is switched off, nothing is recorded of what was sent before, and its links lead on. Needs the setting `PUBLIC_URL` of the server.
     *
     * `PUT /tracking`
     */
    save: (body: Tracking, options?: RequestOptions): Promise<Tracking> =>
      this.request({ method: 'PUT', path: '/tracking', body }, options),
  };

  /** Who can be reached. */
  readonly users = {
    /**
     * Create or update a user.
     * A user who was deleted less than seven days ago is restored by it.
     *
     * `PUT /users`
     */
    save: (body: UserInput, options?: RequestOptions): Promise<User> =>
      this.request({ method: 'PUT', path: '/users', body }, options),
    /**
     * List the users of the project, newest first.
     *
     * `GET /users`
     */
    list: (query?: ListUsersQuery, options?: RequestOptions): PageRequest<User> =>
      this.list('/users', query, options),
    /**
     * Get a user.
     *
     * `GET /users/{user_id}`
     */
    get: (userId: string, options?: RequestOptions): Promise<User> =>
      this.request({ method: 'GET', path: `/users/${segment(userId)}` }, options),
    /**
     * Delete a user.
     * Hidden at once: nothing is delivered any more, connections are closed, and a broadcast that names the user reports it in its `status.errors`. Seven days later everything that is known about the user is erased, in the recipients of broadcasts too: there `external_id` is `deleted:<id>` then. Until then any request that the user makes, and PUT /users with the same identity, restores all of it.
     *
     * `DELETE /users/{user_id}`
     */
    delete: (userId: string, options?: RequestOptions): Promise<void> =>
      this.request({ method: 'DELETE', path: `/users/${segment(userId)}` }, options),
  };

  /** Addresses that nothing is sent to. */
  readonly suppressions = {
    /**
     * Suppress an address, or change what is said about one.
     * Nothing is sent to it any more: deliveries to it are skipped with the code `address_suppressed`. Providers’ refusals, bounces and complaints do the same by themselves.
     *
     * `PUT /suppressions`
     */
    save: (body: SuppressionInput, options?: RequestOptions): Promise<Suppression> =>
      this.request({ method: 'PUT', path: '/suppressions', body }, options),
    /**
     * List the suppressed addresses, newest first.
     *
     * `GET /suppressions`
     */
    list: (query?: ListSuppressionsQuery, options?: RequestOptions): PageRequest<Suppression> =>
      this.list('/suppressions', query, options),
    /**
     * Get a suppressed address.
     *
     * `GET /suppressions/{suppression_id}`
     */
    get: (suppressionId: string, options?: RequestOptions): Promise<Suppression> =>
      this.request({ method: 'GET', path: `/suppressions/${segment(suppressionId)}` }, options),
    /**
     * Lift a suppression.
     * The address is delivered to again, with what is sent from then on.
     *
     * `DELETE /suppressions/{suppression_id}`
     */
    lift: (suppressionId: string, options?: RequestOptions): Promise<void> =>
      this.request({ method: 'DELETE', path: `/suppressions/${segment(suppressionId)}` }, options),
  };

  /** What happened. */
  readonly events = {
    /**
     * List what happened in the project, newest first.
     *
     * `GET /events`
     */
    list: (query?: ListEventsQuery, options?: RequestOptions): PageRequest<Event> =>
      this.list('/events', query, options),
    /**
     * Stream the project's events.
     * Server-Sent Events. Each has the name of its type and the event as JSON data. Events come in the order in which they were committed, none is left out and none comes twice. A client that comes back with `Last-Event-ID`, which may also be the id of any event, is told what it missed; when not all of that can be told any more, a `resync` event asks it to list the events.
     *
     * `GET /events/stream`
     */
    stream: (query?: StreamEventsQuery, options?: StreamOptions): EventStream<EventOf<'streamEvents', Event>> =>
      this.stream('/events/stream', query, options),
    /**
     * Get an event.
     *
     * `GET /events/{event_id}`
     */
    get: (eventId: string, options?: RequestOptions): Promise<Event> =>
      this.request({ method: 'GET', path: `/events/${segment(eventId)}` }, options),
  };

  /** Where events are sent to as they happen. */
  readonly webhooks = {
    /**
     * Create or change a webhook.
     * Events are sent as `{type, timestamp, data}`, `data` being the event as `GET /events/{event_id}` answers it, and signed by the rules of Standard Webhooks. Anything but a 2xx answer is tried again for a day; `410 Gone`, or five days of failures without a success, disable the webhook. A message may come more than once: `webhook-id` is the same then.
     *
     * `PUT /webhooks`
     */
    save: (body: WebhookInput, options?: RequestOptions): Promise<Webhook> =>
      this.request({ method: 'PUT', path: '/webhooks', body }, options),
    /**
     * List the webhooks, newest first.
     *
     * `GET /webhooks`
     */
    list: (query?: ListQuery, options?: RequestOptions): PageRequest<Webhook> =>
      this.list('/webhooks', query, options),
    /**
     * Get a webhook.
     *
     * `GET /webhooks/{webhook_id}`
     */
    get: (webhookId: string, options?: RequestOptions): Promise<Webhook> =>
      this.request({ method: 'GET', path: `/webhooks/${segment(webhookId)}` }, options),
    /**
     * Delete a webhook with all that is known of its messages.
     *
     * `DELETE /webhooks/{webhook_id}`
     */
    delete: (webhookId: string, options?: RequestOptions): Promise<void> =>
      this.request({ method: 'DELETE', path: `/webhooks/${segment(webhookId)}` }, options),
    /**
     * List what was sent to a webhook, newest event first.
     * Events of the last 30 days that were sent at least once, or given up.
     *
     * `GET /webhooks/{webhook_id}/deliveries`
     */
    listDeliveries: (webhookId: string, query?: ListWebhookDeliveriesQuery, options?: RequestOptions): PageRequest<WebhookDelivery> =>
      this.list(`/webhooks/${segment(webhookId)}/deliveries`, query, options),
    /**
     * Send events to a webhook again.
     * One event, or those of a stretch of time. They are sent in the background, with the `webhook-id` that they had.
     *
     * `POST /webhooks/{webhook_id}/replay`
     */
    replay: (webhookId: string, body: WebhookReplayInput, options?: RequestOptions): Promise<void> =>
      this.request({ method: 'POST', path: `/webhooks/${segment(webhookId)}/replay`, body }, options),
    secret: {
      /**
       * Get the secret that a webhook's messages are signed with.
       *
       * `GET /webhooks/{webhook_id}/secret`
       */
      get: (webhookId: string, options?: RequestOptions): Promise<WebhookSecret> =>
        this.request({ method: 'GET', path: `/webhooks/${segment(webhookId)}/secret` }, options),
      /**
       * Give a webhook a new secret.
       * For a day messages are signed with both, the new one and the one before.
       *
       * `POST /webhooks/{webhook_id}/secret/rotate`
       */
      rotate: (webhookId: string, options?: RequestOptions): Promise<WebhookSecretRotation> =>
        this.request({ method: 'POST', path: `/webhooks/${segment(webhookId)}/secret/rotate` }, options),
    },
  };
}

// Made from openapi.json by `npm run generate`: change the API, not this file.
import { Client, segment } from '../client.ts';
import type { EventOf } from '../event-of.ts';
import type { EventStream } from '../event-stream.ts';
import type { Query, RequestOptions, StreamOptions } from '../options.ts';
import type { PageRequest } from '../page-request.ts';
import type { ApnsIntegration, ApnsIntegrationConfig, ApnsToken, Broadcast, BroadcastInput, CategoryDeliveryConfig, ChatToken, DeleteIntegrationQuery, Delivery, DeliveryReplay, DeliveryReplayInput, DeliveryWindows, DiscardedToken, Empty, Event, EventsourceIntegration, EventsourceIntegrationConfig, ExpoIntegration, ExpoIntegrationConfig, ExpoToken, FcmIntegration, FcmIntegrationConfig, FcmToken, GithubIntegration, GithubIntegrationConfig, InboxIntegration, InboxIntegrationConfig, InboxIntegrationConfigInput, InboxToken, Integration, ListBroadcastDeliveriesQuery, ListBroadcastsQuery, ListCategoryDeliveryConfigsQuery, ListEventsQuery, ListNotificationsQuery, ListQuery, ListSuppressionsQuery, ListTokensQuery, ListTopicsQuery, ListUsersQuery, ListWebhookDeliveriesQuery, ListWorkflowRunsQuery, MailgunIntegration, MailgunIntegrationConfig, Notification, NotificationsQuery, PingEmailIntegration, PingEmailIntegrationConfig, PostedWorkflowEvent, Project, ProjectInput, ProjectSettings, SaveIntegrationQuery, SendgridIntegration, SendgridIntegrationConfig, SesIntegration, SesIntegrationConfig, SlackIntegration, SlackIntegrationConfig, SlackbotIntegration, SlackbotIntegrationConfig, SmtpIntegration, SmtpIntegrationConfig, Snooze, StartedWorkflowRun, StartedWorkflowRuns, StreamEventsQuery, StripeIntegration, StripeIntegrationConfig, Subscription, SubscriptionInput, Suppression, SuppressionInput, TeamsIntegration, TeamsIntegrationConfig, TeamsToken, Template, TemplateInput, TemplatePreview, TemplatePreviewInput, TemplateRecord, TemplateVersion, TemplateVersionList, Topic, TopicSubscriberChanges, TopicSubscribersInput, TopicSubscribersRemovalInput, Tracking, TwilioIntegration, TwilioIntegrationConfig, UnreadCount, UnseenCount, User, UserExport, UserImport, UserImportInput, UserInput, UserPreferences, UserPreferencesInput, UserUpdate, WebPushIntegration, WebPushIntegrationConfig, WebPushToken, Webhook, WebhookDelivery, WebhookInput, WebhookReplayInput, WebhookSecret, WebhookSecretRotation, Workflow, WorkflowEventInput, WorkflowInput, WorkflowList, WorkflowRun, WorkflowRunInput, WorkflowRunRecord, WorkflowRunsInput, WorkflowVersion, WorkflowVersionList } from './types.ts';

/** Acts for a whole project with a Project JWT. For your servers, never for a browser. */
export class ProjectClient extends Client {
  /** One message to many users. */
  readonly broadcasts = {
    /**
     * Send a broadcast to up to 1000 recipients.
     * Creates one notification for each user, and creates users that do not exist yet. Responds as soon as the broadcast is stored; delivery continues in the background, and `status` shows its progress. A broadcast cannot be changed. It can be cancelled until it has ended. Requires a Project JWT.
     *
     * `POST /broadcasts`
     */
    create: (body: BroadcastInput, options?: RequestOptions): Promise<Broadcast> =>
      this.request({ method: 'POST', path: '/broadcasts', body }, options),
    /**
     * List the broadcasts of the project, newest first.
     * Each broadcast has its texts, its recipients and the status of its delivery. A page whose texts exceed 16 MiB may have fewer records than `limit`; follow `links.next` until it is `null`. Requires a Project JWT.
     *
     * `GET /broadcasts`
     */
    list: (query?: Query<ListBroadcastsQuery>, options?: RequestOptions): PageRequest<Broadcast> =>
      this.list('/broadcasts', query, options),
    /**
     * Get a broadcast.
     * Returns the broadcast with its texts, its recipients and the status of its delivery. `GET /broadcasts/{broadcast_id}/deliveries` lists each delivery. Requires a Project JWT.
     *
     * `GET /broadcasts/{broadcast_id}`
     */
    get: (broadcastId: string, options?: RequestOptions): Promise<Broadcast> =>
      this.request({ method: 'GET', path: `/broadcasts/${segment(broadcastId)}` }, options),
    /**
     * Cancel a broadcast.
     * Deliveries that are not sent yet are skipped with the code `cancelled`, and no further subscribers of a topic get it. Messages in flight are finished, and notifications that an inbox shows stay there. A broadcast that has ended does not change: its `cancelled_at` stays `null`. The request can be repeated. Requires a Project JWT.
     *
     * `POST /broadcasts/{broadcast_id}/cancel`
     */
    cancel: (broadcastId: string, options?: RequestOptions): Promise<Broadcast> =>
      this.request({ method: 'POST', path: `/broadcasts/${segment(broadcastId)}/cancel` }, options),
    deliveries: {
      /**
       * List the deliveries of a broadcast.
       * Returns each notification of the broadcast once for every channel that was set up when it was sent. The order is that of the users' ids, with the channels of a user together; named recipients come before the subscribers of a topic. A page that is filtered by `state` may have fewer records than `limit`; follow `links.next` until it is `null`. Requires a Project JWT.
       *
       * `GET /broadcasts/{broadcast_id}/deliveries`
       */
      list: (broadcastId: string, query?: Query<ListBroadcastDeliveriesQuery>, options?: RequestOptions): PageRequest<Delivery> =>
        this.list(`/broadcasts/${segment(broadcastId)}/deliveries`, query, options),
      /**
       * Replay the failed deliveries of a broadcast.
       * Starts failed deliveries from the beginning, and skipped ones if `user_ids` names their users. Preferences and addresses are checked again, each delivery gets a new time to live and an event `delivery.replayed`, and `pending` of the broadcast counts it until it ends. A delivery that was sent is never sent twice. Requires a Project JWT.
       *
       * `POST /broadcasts/{broadcast_id}/deliveries/replay`
       */
      replay: (broadcastId: string, body: DeliveryReplayInput, options?: RequestOptions): Promise<DeliveryReplay> =>
        this.request({ method: 'POST', path: `/broadcasts/${segment(broadcastId)}/deliveries/replay`, body }, options),
    },
  };

  /** The inbox of a user. */
  readonly notifications = {
    /**
     * List the deliveries of a notification.
     * Returns one delivery for every channel that was set up when the notification was sent. All of them are on one page. Requires a Project JWT.
     *
     * `GET /notifications/{notification_id}/deliveries`
     */
    listDeliveries: (notificationId: string, options?: RequestOptions): PageRequest<Delivery> =>
      this.list(`/notifications/${segment(notificationId)}/deliveries`, {}, options),
    /**
     * List the notifications of a user, newest first.
     * The order is that of arrival in the inbox: a notification that its category delays is on top when it appears. Archived and snoozed notifications are listed only with that `status`. A page whose texts exceed 16 MiB may have fewer records than `limit`; follow `links.next` until it is `null`. Requires a Project JWT.
     *
     * `GET /users/{user_id}/notifications`
     */
    list: (userId: string, query?: Query<ListNotificationsQuery>, options?: RequestOptions): PageRequest<Notification> =>
      this.list(`/users/${segment(userId)}/notifications`, query, options),
    /**
     * Count the unread notifications of a user.
     * Counts notifications that are neither read nor archived nor snoozed, seen or not. The count is exact up to 5,000. Requires a Project JWT.
     *
     * `GET /users/{user_id}/notifications/unread/count`
     */
    countUnread: (userId: string, query?: Query<NotificationsQuery>, options?: RequestOptions): Promise<UnreadCount> =>
      this.request({ method: 'GET', path: `/users/${segment(userId)}/notifications/unread/count`, query }, options),
    /**
     * Count the unseen notifications of a user.
     * Counts notifications that the user has not seen, for the number on a bell. The count is exact up to 5,000. Requires a Project JWT.
     *
     * `GET /users/{user_id}/notifications/unseen/count`
     */
    countUnseen: (userId: string, query?: Query<NotificationsQuery>, options?: RequestOptions): Promise<UnseenCount> =>
      this.request({ method: 'GET', path: `/users/${segment(userId)}/notifications/unseen/count`, query }, options),
    /**
     * Mark all notifications of a user as read.
     * Marks every notification of the user as read and seen, or only those of a category or topic. Open inboxes show the change at once. Requires a Project JWT.
     *
     * `POST /users/{user_id}/notifications/read`
     */
    readAll: (userId: string, query?: Query<NotificationsQuery>, options?: RequestOptions): Promise<void> =>
      this.request({ method: 'POST', path: `/users/${segment(userId)}/notifications/read`, query }, options),
    /**
     * Mark all notifications of a user as seen.
     * Marks every notification of the user as seen, or only those of a category or topic. Open inboxes show the change at once. Requires a Project JWT.
     *
     * `POST /users/{user_id}/notifications/seen`
     */
    seenAll: (userId: string, query?: Query<NotificationsQuery>, options?: RequestOptions): Promise<void> =>
      this.request({ method: 'POST', path: `/users/${segment(userId)}/notifications/seen`, query }, options),
    /**
     * Archive all notifications of a user.
     * Archives every notification of the user, or only those of a category or topic. Open inboxes show the change at once. Requires a Project JWT.
     *
     * `POST /users/{user_id}/notifications/archive`
     */
    archiveAll: (userId: string, query?: Query<NotificationsQuery>, options?: RequestOptions): Promise<void> =>
      this.request({ method: 'POST', path: `/users/${segment(userId)}/notifications/archive`, query }, options),
    /**
     * Get a notification of a user.
     * Returns a notification of the user. Responds 404 for one that the user deleted, and for one that is not in the inbox. Requires a Project JWT.
     *
     * `GET /users/{user_id}/notifications/{notification_id}`
     */
    get: (userId: string, notificationId: string, options?: RequestOptions): Promise<Notification> =>
      this.request({ method: 'GET', path: `/users/${segment(userId)}/notifications/${segment(notificationId)}` }, options),
    /**
     * Delete a notification of a user.
     * Removes the notification from the inbox for good. Open inboxes of the user show the change at once. Responds 404 if it was deleted before. Requires a Project JWT.
     *
     * `DELETE /users/{user_id}/notifications/{notification_id}`
     */
    delete: (userId: string, notificationId: string, options?: RequestOptions): Promise<void> =>
      this.request({ method: 'DELETE', path: `/users/${segment(userId)}/notifications/${segment(notificationId)}` }, options),
    /**
     * Mark a notification of a user as read.
     * Marks the notification as read and seen. Open inboxes of the user show the change at once. Repeating it has no effect. Requires a Project JWT.
     *
     * `POST /users/{user_id}/notifications/{notification_id}/read`
     */
    read: (userId: string, notificationId: string, options?: RequestOptions): Promise<void> =>
      this.request({ method: 'POST', path: `/users/${segment(userId)}/notifications/${segment(notificationId)}/read` }, options),
    /**
     * Mark a notification of a user as unread.
     * Marks the notification as unread; it stays seen. Open inboxes of the user show the change at once. Repeating it has no effect. Requires a Project JWT.
     *
     * `POST /users/{user_id}/notifications/{notification_id}/unread`
     */
    unread: (userId: string, notificationId: string, options?: RequestOptions): Promise<void> =>
      this.request({ method: 'POST', path: `/users/${segment(userId)}/notifications/${segment(notificationId)}/unread` }, options),
    /**
     * Mark a notification of a user as seen.
     * Marks the notification as seen; it stays unread. Open inboxes of the user show the change at once. Repeating it has no effect. Requires a Project JWT.
     *
     * `POST /users/{user_id}/notifications/{notification_id}/seen`
     */
    seen: (userId: string, notificationId: string, options?: RequestOptions): Promise<void> =>
      this.request({ method: 'POST', path: `/users/${segment(userId)}/notifications/${segment(notificationId)}/seen` }, options),
    /**
     * Archive a notification of a user.
     * Moves the notification to the archive; it no longer counts as unread. Open inboxes of the user show the change at once. Repeating it has no effect. Requires a Project JWT.
     *
     * `POST /users/{user_id}/notifications/{notification_id}/archive`
     */
    archive: (userId: string, notificationId: string, options?: RequestOptions): Promise<void> =>
      this.request({ method: 'POST', path: `/users/${segment(userId)}/notifications/${segment(notificationId)}/archive` }, options),
    /**
     * Restore a notification of a user from the archive.
     * Moves the notification back to the inbox, as read or unread as it was. Open inboxes of the user show the change at once. Repeating it has no effect. Requires a Project JWT.
     *
     * `POST /users/{user_id}/notifications/{notification_id}/unarchive`
     */
    unarchive: (userId: string, notificationId: string, options?: RequestOptions): Promise<void> =>
      this.request({ method: 'POST', path: `/users/${segment(userId)}/notifications/${segment(notificationId)}/unarchive` }, options),
    /**
     * Snooze a notification of a user.
     * Hides the notification until a time. Then it returns to the top of the inbox, unseen, as if it had just arrived. Snoozing it again replaces the time, and `null` returns it now; archiving or deleting it ends the snooze. Open inboxes of the user show the change at once. Requires a Project JWT.
     *
     * `POST /users/{user_id}/notifications/{notification_id}/snooze`
     */
    snooze: (userId: string, notificationId: string, body: Snooze, options?: RequestOptions): Promise<void> =>
      this.request({ method: 'POST', path: `/users/${segment(userId)}/notifications/${segment(notificationId)}/snooze`, body }, options),
  };

  /** The devices, browsers, chats and inboxes of a user. */
  readonly channelTokens = {
    apns: {
      /**
       * List the active tokens of a user, newest first.
       * Discarded tokens are not listed; get them by their id. Requires a Project JWT.
       *
       * `GET /users/{user_id}/channels/mobile_push/apns/tokens`
       */
      list: (userId: string, query?: Query<ListQuery>, options?: RequestOptions): PageRequest<ApnsToken> =>
        this.list(`/users/${segment(userId)}/channels/mobile_push/apns/tokens`, query, options),
      /**
       * Get a token of a user, active or discarded.
       * Returns a token with its secrets. `discarded_at` of an active token is `null`. Requires a Project JWT.
       *
       * `GET /users/{user_id}/channels/mobile_push/apns/tokens/{token_id}`
       */
      get: (userId: string, tokenId: string, options?: RequestOptions): Promise<ApnsToken> =>
        this.request({ method: 'GET', path: `/users/${segment(userId)}/channels/mobile_push/apns/tokens/${segment(tokenId)}` }, options),
      /**
       * Discard a token of a user for good.
       * Nothing is delivered to the token from then on, and its connections are closed. Discarding it again returns the same. Requires a Project JWT.
       *
       * `DELETE /users/{user_id}/channels/mobile_push/apns/tokens/{token_id}`
       */
      discard: (userId: string, tokenId: string, options?: RequestOptions): Promise<DiscardedToken> =>
        this.request({ method: 'DELETE', path: `/users/${segment(userId)}/channels/mobile_push/apns/tokens/${segment(tokenId)}` }, options),
    },
    expo: {
      /**
       * List the active tokens of a user, newest first.
       * Discarded tokens are not listed; get them by their id. Requires a Project JWT.
       *
       * `GET /users/{user_id}/channels/mobile_push/expo/tokens`
       */
      list: (userId: string, query?: Query<ListQuery>, options?: RequestOptions): PageRequest<ExpoToken> =>
        this.list(`/users/${segment(userId)}/channels/mobile_push/expo/tokens`, query, options),
      /**
       * Get a token of a user, active or discarded.
       * Returns a token with its secrets. `discarded_at` of an active token is `null`. Requires a Project JWT.
       *
       * `GET /users/{user_id}/channels/mobile_push/expo/tokens/{token_id}`
       */
      get: (userId: string, tokenId: string, options?: RequestOptions): Promise<ExpoToken> =>
        this.request({ method: 'GET', path: `/users/${segment(userId)}/channels/mobile_push/expo/tokens/${segment(tokenId)}` }, options),
      /**
       * Discard a token of a user for good.
       * Nothing is delivered to the token from then on, and its connections are closed. Discarding it again returns the same. Requires a Project JWT.
       *
       * `DELETE /users/{user_id}/channels/mobile_push/expo/tokens/{token_id}`
       */
      discard: (userId: string, tokenId: string, options?: RequestOptions): Promise<DiscardedToken> =>
        this.request({ method: 'DELETE', path: `/users/${segment(userId)}/channels/mobile_push/expo/tokens/${segment(tokenId)}` }, options),
    },
    fcm: {
      /**
       * List the active tokens of a user, newest first.
       * Discarded tokens are not listed; get them by their id. Requires a Project JWT.
       *
       * `GET /users/{user_id}/channels/mobile_push/fcm/tokens`
       */
      list: (userId: string, query?: Query<ListQuery>, options?: RequestOptions): PageRequest<FcmToken> =>
        this.list(`/users/${segment(userId)}/channels/mobile_push/fcm/tokens`, query, options),
      /**
       * Get a token of a user, active or discarded.
       * Returns a token with its secrets. `discarded_at` of an active token is `null`. Requires a Project JWT.
       *
       * `GET /users/{user_id}/channels/mobile_push/fcm/tokens/{token_id}`
       */
      get: (userId: string, tokenId: string, options?: RequestOptions): Promise<FcmToken> =>
        this.request({ method: 'GET', path: `/users/${segment(userId)}/channels/mobile_push/fcm/tokens/${segment(tokenId)}` }, options),
      /**
       * Discard a token of a user for good.
       * Nothing is delivered to the token from then on, and its connections are closed. Discarding it again returns the same. Requires a Project JWT.
       *
       * `DELETE /users/{user_id}/channels/mobile_push/fcm/tokens/{token_id}`
       */
      discard: (userId: string, tokenId: string, options?: RequestOptions): Promise<DiscardedToken> =>
        this.request({ method: 'DELETE', path: `/users/${segment(userId)}/channels/mobile_push/fcm/tokens/${segment(tokenId)}` }, options),
    },
    inbox: {
      /**
       * List the active tokens of a user, newest first.
       * Discarded tokens are not listed; get them by their id. Requires a Project JWT.
       *
       * `GET /users/{user_id}/channels/in_app/inbox/tokens`
       */
      list: (userId: string, query?: Query<ListQuery>, options?: RequestOptions): PageRequest<InboxToken> =>
        this.list(`/users/${segment(userId)}/channels/in_app/inbox/tokens`, query, options),
      /**
       * Get a token of a user, active or discarded.
       * Returns a token with its secrets. `discarded_at` of an active token is `null`. Requires a Project JWT.
       *
       * `GET /users/{user_id}/channels/in_app/inbox/tokens/{token_id}`
       */
      get: (userId: string, tokenId: string, options?: RequestOptions): Promise<InboxToken> =>
        this.request({ method: 'GET', path: `/users/${segment(userId)}/channels/in_app/inbox/tokens/${segment(tokenId)}` }, options),
      /**
       * Discard a token of a user for good.
       * Nothing is delivered to the token from then on, and its connections are closed. Discarding it again returns the same. Requires a Project JWT.
       *
       * `DELETE /users/{user_id}/channels/in_app/inbox/tokens/{token_id}`
       */
      discard: (userId: string, tokenId: string, options?: RequestOptions): Promise<DiscardedToken> =>
        this.request({ method: 'DELETE', path: `/users/${segment(userId)}/channels/in_app/inbox/tokens/${segment(tokenId)}` }, options),
    },
    slack: {
      /**
       * List the active tokens of a user, newest first.
       * Discarded tokens are not listed; get them by their id. Requires a Project JWT.
       *
       * `GET /users/{user_id}/channels/slack/tokens`
       */
      list: (userId: string, query?: Query<ListTokensQuery>, options?: RequestOptions): PageRequest<ChatToken> =>
        this.list(`/users/${segment(userId)}/channels/slack/tokens`, query, options),
      /**
       * Get a token of a user, active or discarded.
       * Returns a token with its secrets. `discarded_at` of an active token is `null`. Requires a Project JWT.
       *
       * `GET /users/{user_id}/channels/slack/tokens/{token_id}`
       */
      get: (userId: string, tokenId: string, options?: RequestOptions): Promise<ChatToken> =>
        this.request({ method: 'GET', path: `/users/${segment(userId)}/channels/slack/tokens/${segment(tokenId)}` }, options),
      /**
       * Discard a token of a user for good.
       * Nothing is delivered to the token from then on, and its connections are closed. Discarding it again returns the same. Requires a Project JWT.
       *
       * `DELETE /users/{user_id}/channels/slack/tokens/{token_id}`
       */
      discard: (userId: string, tokenId: string, options?: RequestOptions): Promise<DiscardedToken> =>
        this.request({ method: 'DELETE', path: `/users/${segment(userId)}/channels/slack/tokens/${segment(tokenId)}` }, options),
    },
    slackbot: {
      /**
       * List the active tokens of a user, newest first.
       * Discarded tokens are not listed; get them by their id. Requires a Project JWT.
       *
       * `GET /users/{user_id}/channels/slack/service_slackbot/tokens`
       */
      list: (userId: string, query?: Query<ListTokensQuery>, options?: RequestOptions): PageRequest<ChatToken> =>
        this.list(`/users/${segment(userId)}/channels/slack/service_slackbot/tokens`, query, options),
      /**
       * Get a token of a user, active or discarded.
       * Returns a token with its secrets. `discarded_at` of an active token is `null`. Requires a Project JWT.
       *
       * `GET /users/{user_id}/channels/slack/service_slackbot/tokens/{token_id}`
       */
      get: (userId: string, tokenId: string, options?: RequestOptions): Promise<ChatToken> =>
        this.request({ method: 'GET', path: `/users/${segment(userId)}/channels/slack/service_slackbot/tokens/${segment(tokenId)}` }, options),
      /**
       * Discard a token of a user for good.
       * Nothing is delivered to the token from then on, and its connections are closed. Discarding it again returns the same. Requires a Project JWT.
       *
       * `DELETE /users/{user_id}/channels/slack/service_slackbot/tokens/{token_id}`
       */
      discard: (userId: string, tokenId: string, options?: RequestOptions): Promise<DiscardedToken> =>
        this.request({ method: 'DELETE', path: `/users/${segment(userId)}/channels/slack/service_slackbot/tokens/${segment(tokenId)}` }, options),
    },
    teams: {
      /**
       * List the active tokens of a user, newest first.
       * Discarded tokens are not listed; get them by their id. Requires a Project JWT.
       *
       * `GET /users/{user_id}/channels/teams/tokens`
       */
      list: (userId: string, query?: Query<ListQuery>, options?: RequestOptions): PageRequest<TeamsToken> =>
        this.list(`/users/${segment(userId)}/channels/teams/tokens`, query, options),
      /**
       * Get a token of a user, active or discarded.
       * Returns a token with its secrets. `discarded_at` of an active token is `null`. Requires a Project JWT.
       *
       * `GET /users/{user_id}/channels/teams/tokens/{token_id}`
       */
      get: (userId: string, tokenId: string, options?: RequestOptions): Promise<TeamsToken> =>
        this.request({ method: 'GET', path: `/users/${segment(userId)}/channels/teams/tokens/${segment(tokenId)}` }, options),
      /**
       * Discard a token of a user for good.
       * Nothing is delivered to the token from then on, and its connections are closed. Discarding it again returns the same. Requires a Project JWT.
       *
       * `DELETE /users/{user_id}/channels/teams/tokens/{token_id}`
       */
      discard: (userId: string, tokenId: string, options?: RequestOptions): Promise<DiscardedToken> =>
        this.request({ method: 'DELETE', path: `/users/${segment(userId)}/channels/teams/tokens/${segment(tokenId)}` }, options),
    },
    webPush: {
      /**
       * List the active tokens of a user, newest first.
       * Discarded tokens are not listed; get them by their id. Requires a Project JWT.
       *
       * `GET /users/{user_id}/channels/web_push/tokens`
       */
      list: (userId: string, query?: Query<ListQuery>, options?: RequestOptions): PageRequest<WebPushToken> =>
        this.list(`/users/${segment(userId)}/channels/web_push/tokens`, query, options),
      /**
       * Get a token of a user, active or discarded.
       * Returns a token with its secrets. `discarded_at` of an active token is `null`. Requires a Project JWT.
       *
       * `GET /users/{user_id}/channels/web_push/tokens/{token_id}`
       */
      get: (userId: string, tokenId: string, options?: RequestOptions): Promise<WebPushToken> =>
        this.request({ method: 'GET', path: `/users/${segment(userId)}/channels/web_push/tokens/${segment(tokenId)}` }, options),
      /**
       * Discard a token of a user for good.
       * Nothing is delivered to the token from then on, and its connections are closed. Discarding it again returns the same. Requires a Project JWT.
       *
       * `DELETE /users/{user_id}/channels/web_push/tokens/{token_id}`
       */
      discard: (userId: string, tokenId: string, options?: RequestOptions): Promise<DiscardedToken> =>
        this.request({ method: 'DELETE', path: `/users/${segment(userId)}/channels/web_push/tokens/${segment(tokenId)}` }, options),
    },
  };

  /** The providers that a project sends with. */
  readonly integrations = {
    /**
     * List the integrations of all providers, newest first.
     * Each integration has its config with all secrets, and a `state` while it is paused. Requires a Project JWT.
     *
     * `GET /integrations`
     */
    list: (query?: Query<ListQuery>, options?: RequestOptions): PageRequest<Integration> =>
      this.list('/integrations', query, options),
    apns: {
      /**
       * Save the apns integration.
       * See https://developer.apple.com/documentation/usernotifications/sending-notification-requests-to-apns. Replaces the saved config; with an `id` of your choice (a UUID), a project can have several integrations of one provider. A channel uses the integration that was first saved, and the next one when it fails. Saving an integration again keeps its place; delete and save it to move it to the end. Requires a Project JWT.
       *
       * `PUT /integrations/apns`
       */
      save: (body: ApnsIntegrationConfig, query?: Query<SaveIntegrationQuery>, options?: RequestOptions): Promise<ApnsIntegrationConfig> =>
        this.request({ method: 'PUT', path: '/integrations/apns', body, query }, options),
      /**
       * List the apns integrations, newest first.
       * Each integration has its config with all secrets, and a `state` while it is paused. Requires a Project JWT.
       *
       * `GET /integrations/apns`
       */
      list: (query?: Query<ListQuery>, options?: RequestOptions): PageRequest<ApnsIntegration> =>
        this.list('/integrations/apns', query, options),
      /**
       * Delete the apns integration.
       * Deletes the integration with this `id`, or without an `id` all integrations of the provider. Messages then use the next integration of the channel, or fail with `no_integration` if there is none. Requires a Project JWT.
       *
       * `DELETE /integrations/apns`
       */
      delete: (query?: Query<DeleteIntegrationQuery>, options?: RequestOptions): Promise<Empty> =>
        this.request({ method: 'DELETE', path: '/integrations/apns', query }, options),
    },
    eventsource: {
      /**
       * Save the eventsource integration.
       * See https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md. Replaces the saved config; with an `id` of your choice (a UUID), a project can have several integrations of one provider. A channel uses the integration that was first saved, and the next one when it fails. Saving an integration again keeps its place; delete and save it to move it to the end. Requires a Project JWT.
       *
       * `PUT /integrations/eventsource`
       */
      save: (body: EventsourceIntegrationConfig, query?: Query<SaveIntegrationQuery>, options?: RequestOptions): Promise<EventsourceIntegrationConfig> =>
        this.request({ method: 'PUT', path: '/integrations/eventsource', body, query }, options),
      /**
       * List the eventsource integrations, newest first.
       * Each integration has its config with all secrets, and a `state` while it is paused. Requires a Project JWT.
       *
       * `GET /integrations/eventsource`
       */
      list: (query?: Query<ListQuery>, options?: RequestOptions): PageRequest<EventsourceIntegration> =>
        this.list('/integrations/eventsource', query, options),
      /**
       * Delete the eventsource integration.
       * Deletes the integration with this `id`, or without an `id` all integrations of the provider. Messages then use the next integration of the channel, or fail with `no_integration` if there is none. Requires a Project JWT.
       *
       * `DELETE /integrations/eventsource`
       */
      delete: (query?: Query<DeleteIntegrationQuery>, options?: RequestOptions): Promise<Empty> =>
        this.request({ method: 'DELETE', path: '/integrations/eventsource', query }, options),
    },
    expo: {
      /**
       * Save the expo integration.
       * See https://docs.expo.dev/push-notifications/sending-notifications/. Replaces the saved config; with an `id` of your choice (a UUID), a project can have several integrations of one provider. A channel uses the integration that was first saved, and the next one when it fails. Saving an integration again keeps its place; delete and save it to move it to the end. Requires a Project JWT.
       *
       * `PUT /integrations/expo`
       */
      save: (body: ExpoIntegrationConfig, query?: Query<SaveIntegrationQuery>, options?: RequestOptions): Promise<ExpoIntegrationConfig> =>
        this.request({ method: 'PUT', path: '/integrations/expo', body, query }, options),
      /**
       * List the expo integrations, newest first.
       * Each integration has its config with all secrets, and a `state` while it is paused. Requires a Project JWT.
       *
       * `GET /integrations/expo`
       */
      list: (query?: Query<ListQuery>, options?: RequestOptions): PageRequest<ExpoIntegration> =>
        this.list('/integrations/expo', query, options),
      /**
       * Delete the expo integration.
       * Deletes the integration with this `id`, or without an `id` all integrations of the provider. Messages then use the next integration of the channel, or fail with `no_integration` if there is none. Requires a Project JWT.
       *
       * `DELETE /integrations/expo`
       */
      delete: (query?: Query<DeleteIntegrationQuery>, options?: RequestOptions): Promise<Empty> =>
        this.request({ method: 'DELETE', path: '/integrations/expo', query }, options),
    },
    fcm: {
      /**
       * Save the fcm integration.
       * See https://firebase.google.com/docs/reference/fcm/rest/v1/projects.messages. Replaces the saved config; with an `id` of your choice (a UUID), a project can have several integrations of one provider. A channel uses the integration that was first saved, and the next one when it fails. Saving an integration again keeps its place; delete and save it to move it to the end. Requires a Project JWT.
       *
       * `PUT /integrations/fcm`
       */
      save: (body: FcmIntegrationConfig, query?: Query<SaveIntegrationQuery>, options?: RequestOptions): Promise<FcmIntegrationConfig> =>
        this.request({ method: 'PUT', path: '/integrations/fcm', body, query }, options),
      /**
       * List the fcm integrations, newest first.
       * Each integration has its config with all secrets, and a `state` while it is paused. Requires a Project JWT.
       *
       * `GET /integrations/fcm`
       */
      list: (query?: Query<ListQuery>, options?: RequestOptions): PageRequest<FcmIntegration> =>
        this.list('/integrations/fcm', query, options),
      /**
       * Delete the fcm integration.
       * Deletes the integration with this `id`, or without an `id` all integrations of the provider. Messages then use the next integration of the channel, or fail with `no_integration` if there is none. Requires a Project JWT.
       *
       * `DELETE /integrations/fcm`
       */
      delete: (query?: Query<DeleteIntegrationQuery>, options?: RequestOptions): Promise<Empty> =>
        this.request({ method: 'DELETE', path: '/integrations/fcm', query }, options),
    },
    github: {
      /**
       * Save the github integration.
       * See https://docs.github.com/en/webhooks/using-webhooks/validating-webhook-deliveries. Replaces the saved config; with an `id` of your choice (a UUID), a project can have several integrations of one provider. A channel uses the integration that was first saved, and the next one when it fails. Saving an integration again keeps its place; delete and save it to move it to the end. Requires a Project JWT.
       *
       * `PUT /integrations/github`
       */
      save: (body: GithubIntegrationConfig, query?: Query<SaveIntegrationQuery>, options?: RequestOptions): Promise<GithubIntegrationConfig> =>
        this.request({ method: 'PUT', path: '/integrations/github', body, query }, options),
      /**
       * List the github integrations, newest first.
       * Each integration has its config with all secrets, and a `state` while it is paused. Requires a Project JWT.
       *
       * `GET /integrations/github`
       */
      list: (query?: Query<ListQuery>, options?: RequestOptions): PageRequest<GithubIntegration> =>
        this.list('/integrations/github', query, options),
      /**
       * Delete the github integration.
       * Deletes the integration with this `id`, or without an `id` all integrations of the provider. Messages then use the next integration of the channel, or fail with `no_integration` if there is none. Requires a Project JWT.
       *
       * `DELETE /integrations/github`
       */
      delete: (query?: Query<DeleteIntegrationQuery>, options?: RequestOptions): Promise<Empty> =>
        this.request({ method: 'DELETE', path: '/integrations/github', query }, options),
    },
    inbox: {
      /**
       * Save the inbox integration.
       * See https://www.rfc-editor.org/rfc/rfc5646. Replaces the saved config; with an `id` of your choice (a UUID), a project can have several integrations of one provider. A channel uses the integration that was first saved, and the next one when it fails. Saving an integration again keeps its place; delete and save it to move it to the end. Requires a Project JWT.
       *
       * `PUT /integrations/inbox`
       */
      save: (body: InboxIntegrationConfigInput, query?: Query<SaveIntegrationQuery>, options?: RequestOptions): Promise<InboxIntegrationConfig> =>
        this.request({ method: 'PUT', path: '/integrations/inbox', body, query }, options),
      /**
       * List the inbox integrations, newest first.
       * Each integration has its config with all secrets, and a `state` while it is paused. Requires a Project JWT.
       *
       * `GET /integrations/inbox`
       */
      list: (query?: Query<ListQuery>, options?: RequestOptions): PageRequest<InboxIntegration> =>
        this.list('/integrations/inbox', query, options),
      /**
       * Delete the inbox integration.
       * Deletes the integration with this `id`, or without an `id` all integrations of the provider. Messages then use the next integration of the channel, or fail with `no_integration` if there is none. Requires a Project JWT.
       *
       * `DELETE /integrations/inbox`
       */
      delete: (query?: Query<DeleteIntegrationQuery>, options?: RequestOptions): Promise<Empty> =>
        this.request({ method: 'DELETE', path: '/integrations/inbox', query }, options),
    },
    mailgun: {
      /**
       * Save the mailgun integration.
       * See https://documentation.mailgun.com/docs/mailgun/api-reference/send/mailgun/messages. Replaces the saved config; with an `id` of your choice (a UUID), a project can have several integrations of one provider. A channel uses the integration that was first saved, and the next one when it fails. Saving an integration again keeps its place; delete and save it to move it to the end. Requires a Project JWT.
       *
       * `PUT /integrations/mailgun`
       */
      save: (body: MailgunIntegrationConfig, query?: Query<SaveIntegrationQuery>, options?: RequestOptions): Promise<MailgunIntegrationConfig> =>
        this.request({ method: 'PUT', path: '/integrations/mailgun', body, query }, options),
      /**
       * List the mailgun integrations, newest first.
       * Each integration has its config with all secrets, and a `state` while it is paused. Requires a Project JWT.
       *
       * `GET /integrations/mailgun`
       */
      list: (query?: Query<ListQuery>, options?: RequestOptions): PageRequest<MailgunIntegration> =>
        this.list('/integrations/mailgun', query, options),
      /**
       * Delete the mailgun integration.
       * Deletes the integration with this `id`, or without an `id` all integrations of the provider. Messages then use the next integration of the channel, or fail with `no_integration` if there is none. Requires a Project JWT.
       *
       * `DELETE /integrations/mailgun`
       */
      delete: (query?: Query<DeleteIntegrationQuery>, options?: RequestOptions): Promise<Empty> =>
        this.request({ method: 'DELETE', path: '/integrations/mailgun', query }, options),
    },
    pingEmail: {
      /**
       * Save the ping_email integration.
       * See https://www.rfc-editor.org/rfc/rfc9110#POST. Replaces the saved config; with an `id` of your choice (a UUID), a project can have several integrations of one provider. A channel uses the integration that was first saved, and the next one when it fails. Saving an integration again keeps its place; delete and save it to move it to the end. Requires a Project JWT.
       *
       * `PUT /integrations/ping_email`
       */
      save: (body: PingEmailIntegrationConfig, query?: Query<SaveIntegrationQuery>, options?: RequestOptions): Promise<PingEmailIntegrationConfig> =>
        this.request({ method: 'PUT', path: '/integrations/ping_email', body, query }, options),
      /**
       * List the ping_email integrations, newest first.
       * Each integration has its config with all secrets, and a `state` while it is paused. Requires a Project JWT.
       *
       * `GET /integrations/ping_email`
       */
      list: (query?: Query<ListQuery>, options?: RequestOptions): PageRequest<PingEmailIntegration> =>
        this.list('/integrations/ping_email', query, options),
      /**
       * Delete the ping_email integration.
       * Deletes the integration with this `id`, or without an `id` all integrations of the provider. Messages then use the next integration of the channel, or fail with `no_integration` if there is none. Requires a Project JWT.
       *
       * `DELETE /integrations/ping_email`
       */
      delete: (query?: Query<DeleteIntegrationQuery>, options?: RequestOptions): Promise<Empty> =>
        this.request({ method: 'DELETE', path: '/integrations/ping_email', query }, options),
    },
    sendgrid: {
      /**
       * Save the sendgrid integration.
       * See https://www.twilio.com/docs/sendgrid/api-reference/mail-send/mail-send. Replaces the saved config; with an `id` of your choice (a UUID), a project can have several integrations of one provider. A channel uses the integration that was first saved, and the next one when it fails. Saving an integration again keeps its place; delete and save it to move it to the end. Requires a Project JWT.
       *
       * `PUT /integrations/sendgrid`
       */
      save: (body: SendgridIntegrationConfig, query?: Query<SaveIntegrationQuery>, options?: RequestOptions): Promise<SendgridIntegrationConfig> =>
        this.request({ method: 'PUT', path: '/integrations/sendgrid', body, query }, options),
      /**
       * List the sendgrid integrations, newest first.
       * Each integration has its config with all secrets, and a `state` while it is paused. Requires a Project JWT.
       *
       * `GET /integrations/sendgrid`
       */
      list: (query?: Query<ListQuery>, options?: RequestOptions): PageRequest<SendgridIntegration> =>
        this.list('/integrations/sendgrid', query, options),
      /**
       * Delete the sendgrid integration.
       * Deletes the integration with this `id`, or without an `id` all integrations of the provider. Messages then use the next integration of the channel, or fail with `no_integration` if there is none. Requires a Project JWT.
       *
       * `DELETE /integrations/sendgrid`
       */
      delete: (query?: Query<DeleteIntegrationQuery>, options?: RequestOptions): Promise<Empty> =>
        this.request({ method: 'DELETE', path: '/integrations/sendgrid', query }, options),
    },
    ses: {
      /**
       * Save the ses integration.
       * See https://docs.aws.amazon.com/ses/latest/APIReference-V2/API_SendEmail.html. Replaces the saved config; with an `id` of your choice (a UUID), a project can have several integrations of one provider. A channel uses the integration that was first saved, and the next one when it fails. Saving an integration again keeps its place; delete and save it to move it to the end. Requires a Project JWT.
       *
       * `PUT /integrations/ses`
       */
      save: (body: SesIntegrationConfig, query?: Query<SaveIntegrationQuery>, options?: RequestOptions): Promise<SesIntegrationConfig> =>
        this.request({ method: 'PUT', path: '/integrations/ses', body, query }, options),
      /**
       * List the ses integrations, newest first.
       * Each integration has its config with all secrets, and a `state` while it is paused. Requires a Project JWT.
       *
       * `GET /integrations/ses`
       */
      list: (query?: Query<ListQuery>, options?: RequestOptions): PageRequest<SesIntegration> =>
        this.list('/integrations/ses', query, options),
      /**
       * Delete the ses integration.
       * Deletes the integration with this `id`, or without an `id` all integrations of the provider. Messages then use the next integration of the channel, or fail with `no_integration` if there is none. Requires a Project JWT.
       *
       * `DELETE /integrations/ses`
       */
      delete: (query?: Query<DeleteIntegrationQuery>, options?: RequestOptions): Promise<Empty> =>
        this.request({ method: 'DELETE', path: '/integrations/ses', query }, options),
    },
    slack: {
      /**
       * Save the slack integration.
       * See https://api.slack.com/apps. Replaces the saved config; with an `id` of your choice (a UUID), a project can have several integrations of one provider. A channel uses the integration that was first saved, and the next one when it fails. Saving an integration again keeps its place; delete and save it to move it to the end. Requires a Project JWT.
       *
       * `PUT /integrations/slack`
       */
      save: (body: SlackIntegrationConfig, query?: Query<SaveIntegrationQuery>, options?: RequestOptions): Promise<SlackIntegrationConfig> =>
        this.request({ method: 'PUT', path: '/integrations/slack', body, query }, options),
      /**
       * List the slack integrations, newest first.
       * Each integration has its config with all secrets, and a `state` while it is paused. Requires a Project JWT.
       *
       * `GET /integrations/slack`
       */
      list: (query?: Query<ListQuery>, options?: RequestOptions): PageRequest<SlackIntegration> =>
        this.list('/integrations/slack', query, options),
      /**
       * Delete the slack integration.
       * Deletes the integration with this `id`, or without an `id` all integrations of the provider. Messages then use the next integration of the channel, or fail with `no_integration` if there is none. Requires a Project JWT.
       *
       * `DELETE /integrations/slack`
       */
      delete: (query?: Query<DeleteIntegrationQuery>, options?: RequestOptions): Promise<Empty> =>
        this.request({ method: 'DELETE', path: '/integrations/slack', query }, options),
    },
    slackbot: {
      /**
       * Save the service_slackbot integration.
       * See https://api.slack.com/authentication/oauth-v2. Replaces the saved config; with an `id` of your choice (a UUID), a project can have several integrations of one provider. A channel uses the integration that was first saved, and the next one when it fails. Saving an integration again keeps its place; delete and save it to move it to the end. Requires a Project JWT.
       *
       * `PUT /integrations/service_slackbot`
       */
      save: (body: SlackbotIntegrationConfig, query?: Query<SaveIntegrationQuery>, options?: RequestOptions): Promise<SlackbotIntegrationConfig> =>
        this.request({ method: 'PUT', path: '/integrations/service_slackbot', body, query }, options),
      /**
       * List the service_slackbot integrations, newest first.
       * Each integration has its config with all secrets, and a `state` while it is paused. Requires a Project JWT.
       *
       * `GET /integrations/service_slackbot`
       */
      list: (query?: Query<ListQuery>, options?: RequestOptions): PageRequest<SlackbotIntegration> =>
        this.list('/integrations/service_slackbot', query, options),
      /**
       * Delete the service_slackbot integration.
       * Deletes the integration with this `id`, or without an `id` all integrations of the provider. Messages then use the next integration of the channel, or fail with `no_integration` if there is none. Requires a Project JWT.
       *
       * `DELETE /integrations/service_slackbot`
       */
      delete: (query?: Query<DeleteIntegrationQuery>, options?: RequestOptions): Promise<Empty> =>
        this.request({ method: 'DELETE', path: '/integrations/service_slackbot', query }, options),
    },
    smtp: {
      /**
       * Save the smtp integration.
       * See https://www.rfc-editor.org/rfc/rfc5321. Replaces the saved config; with an `id` of your choice (a UUID), a project can have several integrations of one provider. A channel uses the integration that was first saved, and the next one when it fails. Saving an integration again keeps its place; delete and save it to move it to the end. Requires a Project JWT.
       *
       * `PUT /integrations/smtp`
       */
      save: (body: SmtpIntegrationConfig, query?: Query<SaveIntegrationQuery>, options?: RequestOptions): Promise<SmtpIntegrationConfig> =>
        this.request({ method: 'PUT', path: '/integrations/smtp', body, query }, options),
      /**
       * List the smtp integrations, newest first.
       * Each integration has its config with all secrets, and a `state` while it is paused. Requires a Project JWT.
       *
       * `GET /integrations/smtp`
       */
      list: (query?: Query<ListQuery>, options?: RequestOptions): PageRequest<SmtpIntegration> =>
        this.list('/integrations/smtp', query, options),
      /**
       * Delete the smtp integration.
       * Deletes the integration with this `id`, or without an `id` all integrations of the provider. Messages then use the next integration of the channel, or fail with `no_integration` if there is none. Requires a Project JWT.
       *
       * `DELETE /integrations/smtp`
       */
      delete: (query?: Query<DeleteIntegrationQuery>, options?: RequestOptions): Promise<Empty> =>
        this.request({ method: 'DELETE', path: '/integrations/smtp', query }, options),
    },
    stripe: {
      /**
       * Save the stripe integration.
       * See https://docs.stripe.com/webhooks. Replaces the saved config; with an `id` of your choice (a UUID), a project can have several integrations of one provider. A channel uses the integration that was first saved, and the next one when it fails. Saving an integration again keeps its place; delete and save it to move it to the end. Requires a Project JWT.
       *
       * `PUT /integrations/stripe`
       */
      save: (body: StripeIntegrationConfig, query?: Query<SaveIntegrationQuery>, options?: RequestOptions): Promise<StripeIntegrationConfig> =>
        this.request({ method: 'PUT', path: '/integrations/stripe', body, query }, options),
      /**
       * List the stripe integrations, newest first.
       * Each integration has its config with all secrets, and a `state` while it is paused. Requires a Project JWT.
       *
       * `GET /integrations/stripe`
       */
      list: (query?: Query<ListQuery>, options?: RequestOptions): PageRequest<StripeIntegration> =>
        this.list('/integrations/stripe', query, options),
      /**
       * Delete the stripe integration.
       * Deletes the integration with this `id`, or without an `id` all integrations of the provider. Messages then use the next integration of the channel, or fail with `no_integration` if there is none. Requires a Project JWT.
       *
       * `DELETE /integrations/stripe`
       */
      delete: (query?: Query<DeleteIntegrationQuery>, options?: RequestOptions): Promise<Empty> =>
        this.request({ method: 'DELETE', path: '/integrations/stripe', query }, options),
    },
    teams: {
      /**
       * Save the teams integration.
       * See https://learn.microsoft.com/microsoftteams/platform/webhooks-and-connectors/how-to/add-incoming-webhook. Replaces the saved config; with an `id` of your choice (a UUID), a project can have several integrations of one provider. A channel uses the integration that was first saved, and the next one when it fails. Saving an integration again keeps its place; delete and save it to move it to the end. Requires a Project JWT.
       *
       * `PUT /integrations/teams`
       */
      save: (body: TeamsIntegrationConfig, query?: Query<SaveIntegrationQuery>, options?: RequestOptions): Promise<TeamsIntegrationConfig> =>
        this.request({ method: 'PUT', path: '/integrations/teams', body, query }, options),
      /**
       * List the teams integrations, newest first.
       * Each integration has its config with all secrets, and a `state` while it is paused. Requires a Project JWT.
       *
       * `GET /integrations/teams`
       */
      list: (query?: Query<ListQuery>, options?: RequestOptions): PageRequest<TeamsIntegration> =>
        this.list('/integrations/teams', query, options),
      /**
       * Delete the teams integration.
       * Deletes the integration with this `id`, or without an `id` all integrations of the provider. Messages then use the next integration of the channel, or fail with `no_integration` if there is none. Requires a Project JWT.
       *
       * `DELETE /integrations/teams`
       */
      delete: (query?: Query<DeleteIntegrationQuery>, options?: RequestOptions): Promise<Empty> =>
        this.request({ method: 'DELETE', path: '/integrations/teams', query }, options),
    },
    twilio: {
      /**
       * Save the twilio integration.
       * See https://www.twilio.com/docs/messaging/api/message-resource. Replaces the saved config; with an `id` of your choice (a UUID), a project can have several integrations of one provider. A channel uses the integration that was first saved, and the next one when it fails. Saving an integration again keeps its place; delete and save it to move it to the end. Requires a Project JWT.
       *
       * `PUT /integrations/twilio`
       */
      save: (body: TwilioIntegrationConfig, query?: Query<SaveIntegrationQuery>, options?: RequestOptions): Promise<TwilioIntegrationConfig> =>
        this.request({ method: 'PUT', path: '/integrations/twilio', body, query }, options),
      /**
       * List the twilio integrations, newest first.
       * Each integration has its config with all secrets, and a `state` while it is paused. Requires a Project JWT.
       *
       * `GET /integrations/twilio`
       */
      list: (query?: Query<ListQuery>, options?: RequestOptions): PageRequest<TwilioIntegration> =>
        this.list('/integrations/twilio', query, options),
      /**
       * Delete the twilio integration.
       * Deletes the integration with this `id`, or without an `id` all integrations of the provider. Messages then use the next integration of the channel, or fail with `no_integration` if there is none. Requires a Project JWT.
       *
       * `DELETE /integrations/twilio`
       */
      delete: (query?: Query<DeleteIntegrationQuery>, options?: RequestOptions): Promise<Empty> =>
        this.request({ method: 'DELETE', path: '/integrations/twilio', query }, options),
    },
    webPush: {
      /**
       * Save the web_push integration.
       * See https://www.rfc-editor.org/rfc/rfc8292. Replaces the saved config; with an `id` of your choice (a UUID), a project can have several integrations of one provider. A channel uses the integration that was first saved, and the next one when it fails. Saving an integration again keeps its place; delete and save it to move it to the end. Requires a Project JWT.
       *
       * `PUT /integrations/web_push`
       */
      save: (body: WebPushIntegrationConfig, query?: Query<SaveIntegrationQuery>, options?: RequestOptions): Promise<WebPushIntegrationConfig> =>
        this.request({ method: 'PUT', path: '/integrations/web_push', body, query }, options),
      /**
       * List the web_push integrations, newest first.
       * Each integration has its config with all secrets, and a `state` while it is paused. Requires a Project JWT.
       *
       * `GET /integrations/web_push`
       */
      list: (query?: Query<ListQuery>, options?: RequestOptions): PageRequest<WebPushIntegration> =>
        this.list('/integrations/web_push', query, options),
      /**
       * Delete the web_push integration.
       * Deletes the integration with this `id`, or without an `id` all integrations of the provider. Messages then use the next integration of the channel, or fail with `no_integration` if there is none. Requires a Project JWT.
       *
       * `DELETE /integrations/web_push`
       */
      delete: (query?: Query<DeleteIntegrationQuery>, options?: RequestOptions): Promise<Empty> =>
        this.request({ method: 'DELETE', path: '/integrations/web_push', query }, options),
    },
  };

  /** The channels, delays and conditions of a category. */
  readonly categoryDelivery = {
    /**
     * Save on which channels a category is sent.
     * Replaces the config that has this `key`. A category without a config is sent on every channel that the project has set up. A channel that a user switched off stays off, unless the category is `critical`. Requires a Project JWT.
     *
     * `PUT /channels`
     */
    saveConfig: (body: CategoryDeliveryConfig, options?: RequestOptions): Promise<CategoryDeliveryConfig> =>
      this.request({ method: 'PUT', path: '/channels', body }, options),
    /**
     * List the category configs, newest first.
     * A config keeps its place when it is saved again. The cursors are keys of categories. Requires a Project JWT.
     *
     * `GET /channels`
     */
    listConfigs: (query?: Query<ListCategoryDeliveryConfigsQuery>, options?: RequestOptions): PageRequest<CategoryDeliveryConfig> =>
      this.list('/channels', query, options),
    /**
     * Get the config of a category.
     * Returns the config as it was saved. Responds 404 for a category without one: it is sent on every channel. Requires a Project JWT.
     *
     * `GET /channels/{key}`
     */
    getConfig: (key: string, options?: RequestOptions): Promise<CategoryDeliveryConfig> =>
      this.request({ method: 'GET', path: `/channels/${segment(key)}` }, options),
    /**
     * Delete the config of a category.
     * From then on the category is sent at once on every channel that the project has set up. The preferences of users for this category remain. Requires a Project JWT.
     *
     * `DELETE /channels/{key}`
     */
    deleteConfig: (key: string, options?: RequestOptions): Promise<void> =>
      this.request({ method: 'DELETE', path: `/channels/${segment(key)}` }, options),
  };

  /** The hours in which messages may be sent. */
  readonly deliveryWindows = {
    /**
     * Get the delivery windows of the project.
     * Returns when the project sends messages on each channel. Requires a Project JWT.
     *
     * `GET /channels/delivery_windows`
     */
    get: (options?: RequestOptions): Promise<DeliveryWindows> =>
      this.request({ method: 'GET', path: '/channels/delivery_windows' }, options),
    /**
     * Save the delivery windows of the project.
     * Replaces the saved windows. A message outside of them is deferred until the next window opens in the time zone of the user. A category can have windows of its own; a `critical` category is sent at any time, and the inbox has no windows. Requires a Project JWT.
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
     * Returns the setting of the project. Both are off until they are switched on. Requires a Project JWT.
     *
     * `GET /tracking`
     */
    get: (options?: RequestOptions): Promise<Tracking> =>
      this.request({ method: 'GET', path: '/tracking' }, options),
    /**
     * Save whether opens and clicks are recorded.
     * Applies to messages that are sent from then on. After it is switched off, nothing is recorded for earlier messages, and their links still work. Requires the setting `PUBLIC_URL` of the server. Requires a Project JWT.
     *
     * `PUT /tracking`
     */
    save: (body: Tracking, options?: RequestOptions): Promise<Tracking> =>
      this.request({ method: 'PUT', path: '/tracking', body }, options),
  };

  /** The categories and channels that a user wants. */
  readonly preferences = {
    /**
     * Get the preferences of a user.
     * Lists the categories that the project has configured and those for which the user saved a preference, each with its channels. A channel is enabled until the user switches it off. Labels and descriptions are in the language of the user. `preferences_url` is a page for end users. Requires a Project JWT.
     *
     * `GET /users/{user_id}/preferences`
     */
    get: (userId: string, options?: RequestOptions): Promise<UserPreferences> =>
      this.request({ method: 'GET', path: `/users/${segment(userId)}/preferences` }, options),
    /**
     * Switch categories on or off for a user.
     * Changes only what is in the body. A category need not exist yet: the preference applies from its first broadcast. Switching off a `required` category is a 422; `enabled: true` is accepted for it and has no effect. During `quiet_hours` text messages, push and chat messages wait; `null` removes them. Requires a Project JWT.
     *
     * `PUT /users/{user_id}/preferences`
     */
    save: (userId: string, body: UserPreferencesInput, options?: RequestOptions): Promise<void> =>
      this.request({ method: 'PUT', path: `/users/${segment(userId)}/preferences`, body }, options),
  };

  /** The topics that a user subscribes to. */
  readonly topics = {
    /**
     * Subscribe a user to a topic or unsubscribe it.
     * Changes only the categories in the body. A broadcast to the subscribers of the topic reaches the user according to the status of its category, or of `*` if its category has none; unsubscribing from `*` removes all other categories. A broadcast that names the user as a recipient arrives in any case. Requires a Project JWT.
     *
     * `POST /users/{user_id}/subscriptions`
     */
    saveSubscription: (userId: string, body: SubscriptionInput, options?: RequestOptions): Promise<Subscription> =>
      this.request({ method: 'POST', path: `/users/${segment(userId)}/subscriptions`, body }, options),
    /**
     * List the subscriptions of a user, newest first.
     * Returns every topic that the user subscribed to or unsubscribed from, with the status of its categories. Requires a Project JWT.
     *
     * `GET /users/{user_id}/subscriptions`
     */
    listSubscriptions: (userId: string, query?: Query<ListQuery>, options?: RequestOptions): PageRequest<Subscription> =>
      this.list(`/users/${segment(userId)}/subscriptions`, query, options),
    /**
     * Delete a subscription of a user.
     * Removes the topic with all its categories: broadcasts to its subscribers no longer reach the user. Returns the deleted subscription. Requires a Project JWT.
     *
     * `DELETE /users/{user_id}/subscriptions/{topic}`
     */
    deleteSubscription: (userId: string, topic: string, options?: RequestOptions): Promise<Subscription> =>
      this.request({ method: 'DELETE', path: `/users/${segment(userId)}/subscriptions/${segment(topic)}` }, options),
    /**
     * List the topics that have subscribers, in alphabetical order.
     * Returns each topic with the count of its subscribers. The cursors are names of topics. A page of 50 topics with 10,000 subscribers or more takes about 50 ms, whatever the number of users. Requires a Project JWT.
     *
     * `GET /topics`
     */
    list: (query?: Query<ListTopicsQuery>, options?: RequestOptions): PageRequest<Topic> =>
      this.list('/topics', query, options),
    subscribers: {
      /**
       * List the users that are subscribed to a topic, newest first.
       * Returns the users that are subscribed to the topic or to some of its categories. Deleted users are not listed. Requires a Project JWT.
       *
       * `GET /topics/{topic}/subscribers`
       */
      list: (topic: string, query?: Query<ListQuery>, options?: RequestOptions): PageRequest<User> =>
        this.list(`/topics/${segment(topic)}/subscribers`, query, options),
      /**
       * Subscribe up to 10,000 users to a topic.
       * Changes the subscription of each user as `POST /users/{user_id}/subscriptions` does, and creates users that do not exist unless they are named by `id`. `errors` lists the users that cannot be subscribed; all others are, in one transaction. Requires a Project JWT.
       *
       * `POST /topics/{topic}/subscribers`
       */
      add: (topic: string, body: TopicSubscribersInput, options?: RequestOptions): Promise<TopicSubscriberChanges> =>
        this.request({ method: 'POST', path: `/topics/${segment(topic)}/subscribers`, body }, options),
      /**
       * Delete the subscriptions of up to 10,000 users to a topic.
       * Deletes the subscription of each user with all its categories, in one transaction. `errors` lists users that do not exist. To keep users from being subscribed to a category, subscribe them with the status `unsubscribed`. Requires a Project JWT.
       *
       * `POST /topics/{topic}/subscribers/remove`
       */
      remove: (topic: string, body: TopicSubscribersRemovalInput, options?: RequestOptions): Promise<TopicSubscriberChanges> =>
        this.request({ method: 'POST', path: `/topics/${segment(topic)}/subscribers/remove`, body }, options),
    },
  };

  /** The project itself. */
  readonly project = {
    /**
     * Get the project of the token.
     * Returns the id, the name, the public API key and the settings of the project. Requires a Project JWT.
     *
     * `GET /project`
     */
    get: (options?: RequestOptions): Promise<Project> =>
      this.request({ method: 'GET', path: '/project' }, options),
    /**
     * Save the settings of the project.
     * Applies to requests that arrive from then on, at the latest within seconds. Requires a Project JWT.
     *
     * `PUT /project`
     */
    save: (body: ProjectInput, options?: RequestOptions): Promise<ProjectSettings> =>
      this.request({ method: 'PUT', path: '/project', body }, options),
  };

  /** The people that a project notifies. */
  readonly users = {
    /**
     * Create or update a user.
     * Updates the user with this `external_id`, or else with this `email`, or creates one. Members in the body replace stored values, missing members stay, and `null` clears. A user deleted less than seven days ago is restored. Requires a Project JWT.
     *
     * `PUT /users`
     */
    save: (body: UserInput, options?: RequestOptions): Promise<User> =>
      this.request({ method: 'PUT', path: '/users', body }, options),
    /**
     * List the users of the project, newest first.
     * Find users by the beginning of their `external_id`, e-mail address or name with `query`. Deleted users are not listed. Requires a Project JWT.
     *
     * `GET /users`
     */
    list: (query?: Query<ListUsersQuery>, options?: RequestOptions): PageRequest<User> =>
      this.list('/users', query, options),
    /**
     * Get a user.
     * Returns a user by its `id`, `external_id:<id>` or `email:<address>`. Encode reserved characters: `/users/external_id:a%2Fb`. Requires a Project JWT.
     *
     * `GET /users/{user_id}`
     */
    get: (userId: string, options?: RequestOptions): Promise<User> =>
      this.request({ method: 'GET', path: `/users/${segment(userId)}` }, options),
    /**
     * Update a user, including its identities.
     * Members in the body replace stored values, missing members stay, and `null` clears. A new `external_id` renames the user, with all notifications, tokens and preferences. From then on, the former one belongs to no user. A user keeps at least one of `external_id` and `email`. Requires a Project JWT.
     *
     * `PATCH /users/{user_id}`
     */
    update: (userId: string, body: UserUpdate, options?: RequestOptions): Promise<User> =>
      this.request({ method: 'PATCH', path: `/users/${segment(userId)}`, body }, options),
    /**
     * Delete a user.
     * The user is hidden at once: deliveries and connections end, and broadcasts that name the user report it in `status.errors`. After seven days all personal data is erased, also in the recipients of broadcasts, where `external_id` becomes `deleted:<id>`. Until then a request of that user, or PUT /users with the same identity, restores everything. A request that resumes a stream does not. Requires a Project JWT.
     *
     * `DELETE /users/{user_id}`
     */
    delete: (userId: string, options?: RequestOptions): Promise<void> =>
      this.request({ method: 'DELETE', path: `/users/${segment(userId)}` }, options),
    /**
     * Create or update up to 10,000 users.
     * Each user is saved as by `PUT /users`, except that an identity is never cleared. The body is JSON, NDJSON with a user on each line, or CSV with a header. Columns of CSV are `external_id`, `email`, `first_name`, `last_name`, `locale`, `phone_numbers` (separated by `;`), `custom_attributes` (JSON) and `custom_attributes.<name>`; an empty cell changes nothing. Users are imported in the background. One that is not valid, or whose identities belong to two users, is listed in `failures` and does not affect the others: get the import by its id. Of two entries about one user, the later one counts. Requires a Project JWT.
     *
     * `POST /users/import`
     */
    import: (body: UserImportInput, options?: RequestOptions): Promise<UserImport> =>
      this.request({ method: 'POST', path: '/users/import', body }, options),
    /**
     * Get the progress and the failures of an import.
     * The users that failed are listed with all their problems. Imports are deleted after seven days. Requires a Project JWT.
     *
     * `GET /imports/{import_id}`
     */
    getImport: (importId: string, options?: RequestOptions): Promise<UserImport> =>
      this.request({ method: 'GET', path: `/imports/${segment(importId)}` }, options),
    /**
     * Export everything that is stored about a user.
     * Streams the profile, former identities, preferences, delivery windows, tokens without their secrets, subscriptions, notifications with their deliveries, suppressed addresses, failures of imports, workflow runs, and events. An export that fails breaks off without the end of the response. Requires a Project JWT.
     *
     * `GET /users/{user_id}/export`
     */
    export: (userId: string, options?: RequestOptions): Promise<UserExport> =>
      this.request({ method: 'GET', path: `/users/${segment(userId)}/export` }, options),
  };

  /** Addresses that get no messages. */
  readonly suppressions = {
    /**
     * Suppress an address or change a suppression.
     * Deliveries to a suppressed address are skipped with the code `address_suppressed`. Rejections, bounces and complaints that providers report suppress addresses automatically. If the address is suppressed already, the stronger reason is kept. Requires a Project JWT.
     *
     * `PUT /suppressions`
     */
    save: (body: SuppressionInput, options?: RequestOptions): Promise<Suppression> =>
      this.request({ method: 'PUT', path: '/suppressions', body }, options),
    /**
     * List the suppressed addresses, newest first.
     * Filter them by kind and reason, or find one address with `query`. Requires a Project JWT.
     *
     * `GET /suppressions`
     */
    list: (query?: Query<ListSuppressionsQuery>, options?: RequestOptions): PageRequest<Suppression> =>
      this.list('/suppressions', query, options),
    /**
     * Get a suppression.
     * Returns one suppressed address with the reason and what the provider reported. Requires a Project JWT.
     *
     * `GET /suppressions/{suppression_id}`
     */
    get: (suppressionId: string, options?: RequestOptions): Promise<Suppression> =>
      this.request({ method: 'GET', path: `/suppressions/${segment(suppressionId)}` }, options),
    /**
     * Lift a suppression.
     * Deletes the suppression: broadcasts that are sent from then on reach the address. Skipped deliveries can be replayed. A later bounce or complaint suppresses the address again. Requires a Project JWT.
     *
     * `DELETE /suppressions/{suppression_id}`
     */
    lift: (suppressionId: string, options?: RequestOptions): Promise<void> =>
      this.request({ method: 'DELETE', path: `/suppressions/${segment(suppressionId)}` }, options),
  };

  /** The record of everything that happens in a project. */
  readonly events = {
    /**
     * List the events of the project, newest first.
     * Events are kept for the days of the server's setting `EVENTS_RETENTION_DAYS` (90 by default). Filter them by `type` and by time. Requires a Project JWT.
     *
     * `GET /events`
     */
    list: (query?: Query<ListEventsQuery>, options?: RequestOptions): PageRequest<Event> =>
      this.list('/events', query, options),
    /**
     * Stream the events of the project.
     * Sends each event as a Server-Sent Event: its name is the type, its data the event as JSON. Events arrive in the order of their commits, without gaps or repetition. A client that reconnects with `Last-Event-ID` gets the events that it missed; if they are too many or no longer stored, it gets a `resync` event and should list the events. Requires a Project JWT.
     *
     * `GET /events/stream`
     */
    stream: (query?: Query<StreamEventsQuery>, options?: StreamOptions): EventStream<EventOf<'streamEvents'>> =>
      this.stream('/events/stream', query, options),
    /**
     * Get an event.
     * Returns one event by its id, which is also the `webhook-id` of its webhook messages. Requires a Project JWT.
     *
     * `GET /events/{event_id}`
     */
    get: (eventId: string, options?: RequestOptions): Promise<Event> =>
      this.request({ method: 'GET', path: `/events/${segment(eventId)}` }, options),
  };

  /** Sends events to your servers. */
  readonly webhooks = {
    /**
     * Create or change a webhook.
     * Belfry sends each event of the chosen types to `url`, signed according to Standard Webhooks. It retries for a day until a server responds 2xx; `410 Gone`, or five days without a success, disable the webhook. A message may arrive twice, with the same `webhook-id`. A project has at most 50 webhooks. Requires a Project JWT.
     *
     * `PUT /webhooks`
     */
    save: (body: WebhookInput, options?: RequestOptions): Promise<Webhook> =>
      this.request({ method: 'PUT', path: '/webhooks', body }, options),
    /**
     * List the webhooks, newest first.
     * Returns the webhooks without their secrets, also disabled ones. Requires a Project JWT.
     *
     * `GET /webhooks`
     */
    list: (query?: Query<ListQuery>, options?: RequestOptions): PageRequest<Webhook> =>
      this.list('/webhooks', query, options),
    /**
     * Get a webhook.
     * Returns the webhook without its secret: whether it is enabled, and since when it fails. Requires a Project JWT.
     *
     * `GET /webhooks/{webhook_id}`
     */
    get: (webhookId: string, options?: RequestOptions): Promise<Webhook> =>
      this.request({ method: 'GET', path: `/webhooks/${segment(webhookId)}` }, options),
    /**
     * Delete a webhook.
     * No further messages are sent, and the secret is deleted at once. The records of its messages are purged later. Requires a Project JWT.
     *
     * `DELETE /webhooks/{webhook_id}`
     */
    delete: (webhookId: string, options?: RequestOptions): Promise<void> =>
      this.request({ method: 'DELETE', path: `/webhooks/${segment(webhookId)}` }, options),
    /**
     * List the messages of a webhook, newest event first.
     * Returns the messages of the last 30 days that were sent at least once or have failed, with the response of the last attempt. Requires a Project JWT.
     *
     * `GET /webhooks/{webhook_id}/deliveries`
     */
    listDeliveries: (webhookId: string, query?: Query<ListWebhookDeliveriesQuery>, options?: RequestOptions): PageRequest<WebhookDelivery> =>
      this.list(`/webhooks/${segment(webhookId)}/deliveries`, query, options),
    /**
     * Replay events to a webhook.
     * Sends one event, or the events of a period, in the background and with their original `webhook-id`. At most ten replays of periods run at the same time. Responds 422 if the webhook is disabled. Requires a Project JWT.
     *
     * `POST /webhooks/{webhook_id}/replay`
     */
    replay: (webhookId: string, body: WebhookReplayInput, options?: RequestOptions): Promise<void> =>
      this.request({ method: 'POST', path: `/webhooks/${segment(webhookId)}/replay`, body }, options),
    secret: {
      /**
       * Get the secret of a webhook.
       * Returns the secret that its messages are signed with and, for a day after a rotation, the previous one. Requires a Project JWT.
       *
       * `GET /webhooks/{webhook_id}/secret`
       */
      get: (webhookId: string, options?: RequestOptions): Promise<WebhookSecret> =>
        this.request({ method: 'GET', path: `/webhooks/${segment(webhookId)}/secret` }, options),
      /**
       * Rotate the secret of a webhook.
       * Creates a new secret. For a day messages are signed with both secrets, so that receivers can change without a gap. Requires a Project JWT.
       *
       * `POST /webhooks/{webhook_id}/secret/rotate`
       */
      rotate: (webhookId: string, options?: RequestOptions): Promise<WebhookSecretRotation> =>
        this.request({ method: 'POST', path: `/webhooks/${segment(webhookId)}/secret/rotate` }, options),
    },
  };

  /** Stored lists of steps, and their runs. */
  readonly workflows = {
    /**
     * Save a workflow.
     * Creates the workflow with this `key`, or replaces its steps. Runs that have started keep the version of the steps that they started with. Conditions, templates and the inputs of commands are checked; values that a template makes are checked when a run renders them. A command that does not exist is accepted, and a run fails when it comes to it. Requires a Project JWT.
     *
     * `PUT /workflows`
     */
    save: (body: WorkflowInput, options?: RequestOptions): Promise<Workflow> =>
      this.request({ method: 'PUT', path: '/workflows', body }, options),
    /**
     * List the workflows in alphabetical order.
     * Returns all of them: at most 1,000, with 16 MiB of steps. Requires a Project JWT.
     *
     * `GET /workflows`
     */
    list: (options?: RequestOptions): Promise<WorkflowList> =>
      this.request({ method: 'GET', path: '/workflows' }, options),
    /**
     * Get a workflow.
     * Returns the newest version of its steps. Requires a Project JWT.
     *
     * `GET /workflows/{workflow_key}`
     */
    get: (workflowKey: string, options?: RequestOptions): Promise<Workflow> =>
      this.request({ method: 'GET', path: `/workflows/${segment(workflowKey)}` }, options),
    /**
     * Delete a workflow.
     * Its runs continue. If it is created again, its version numbers continue. Requires a Project JWT.
     *
     * `DELETE /workflows/{workflow_key}`
     */
    delete: (workflowKey: string, options?: RequestOptions): Promise<void> =>
      this.request({ method: 'DELETE', path: `/workflows/${segment(workflowKey)}` }, options),
    /**
     * List the versions of a workflow.
     * Returns the newest 100 versions without their steps, newest first, also of a workflow that was deleted. Requires a Project JWT.
     *
     * `GET /workflows/{workflow_key}/versions`
     */
    listVersions: (workflowKey: string, options?: RequestOptions): Promise<WorkflowVersionList> =>
      this.request({ method: 'GET', path: `/workflows/${segment(workflowKey)}/versions` }, options),
    /**
     * Get a version of a workflow with its steps.
     * Returns any version, also of a workflow that was deleted. Requires a Project JWT.
     *
     * `GET /workflows/{workflow_key}/versions/{version}`
     */
    getVersion: (workflowKey: string, version: string, options?: RequestOptions): Promise<WorkflowVersion> =>
      this.request({ method: 'GET', path: `/workflows/${segment(workflowKey)}/versions/${segment(version)}` }, options),
    /**
     * Restore a version of a workflow.
     * Saves the steps of the version again, as the newest version. Requires a Project JWT.
     *
     * `POST /workflows/{workflow_key}/versions/{version}/restore`
     */
    restoreVersion: (workflowKey: string, version: string, options?: RequestOptions): Promise<Workflow> =>
      this.request({ method: 'POST', path: `/workflows/${segment(workflowKey)}/versions/${segment(version)}/restore` }, options),
    /**
     * Start a run of a workflow.
     * The run executes the steps of the workflow one after the other. It continues after every crash of the server where it was. Requires a Project JWT.
     *
     * `POST /workflows/runs`
     */
    startRun: (body: WorkflowRunInput, options?: RequestOptions): Promise<StartedWorkflowRun> =>
      this.request({ method: 'POST', path: '/workflows/runs', body }, options),
    /**
     * Get a run with its input and its steps.
     * Runs that have ended are deleted as events are, after `EVENTS_RETENTION_DAYS`. Requires a Project JWT.
     *
     * `GET /workflows/runs/{run_id}`
     */
    getRun: (runId: string, options?: RequestOptions): Promise<WorkflowRun> =>
      this.request({ method: 'GET', path: `/workflows/runs/${segment(runId)}` }, options),
    /**
     * Cancel a run.
     * Ends the run as aborted. A step that is executed meanwhile is not undone. Requires a Project JWT.
     *
     * `POST /workflows/runs/{run_id}/cancel`
     */
    cancelRun: (runId: string, options?: RequestOptions): Promise<WorkflowRun> =>
      this.request({ method: 'POST', path: `/workflows/runs/${segment(runId)}/cancel` }, options),
    /**
     * Resume a paused run.
     * Continues a run that waits at a `pause`. Requires a Project JWT.
     *
     * `POST /workflows/runs/{run_id}/resume`
     */
    resumeRun: (runId: string, options?: RequestOptions): Promise<WorkflowRun> =>
      this.request({ method: 'POST', path: `/workflows/runs/${segment(runId)}/resume` }, options),
    /**
     * Continue a failed run.
     * Continues a run that failed, with the step that failed. Requires a Project JWT.
     *
     * `POST /workflows/runs/{run_id}/rerun`
     */
    rerunRun: (runId: string, options?: RequestOptions): Promise<WorkflowRun> =>
      this.request({ method: 'POST', path: `/workflows/runs/${segment(runId)}/rerun` }, options),
    /**
     * Post an event that continues and starts runs.
     * Continues the runs that wait for the event with `wait_for`, and starts a run of each workflow with a trigger for it. If both a waiting run and the event have a user, it must be the same. The event is not kept: runs that begin to wait later do not see it. Requires a Project JWT.
     *
     * `POST /workflows/events`
     */
    postEvent: (body: WorkflowEventInput, options?: RequestOptions): Promise<PostedWorkflowEvent> =>
      this.request({ method: 'POST', path: '/workflows/events', body }, options),
    runs: {
      /**
       * Start up to 1000 runs of a workflow.
       * Starts a run for each of the inputs: all of them, or none if the request is rejected. Requires a Project JWT.
       *
       * `POST /workflows/runs/bulk`
       */
      start: (body: WorkflowRunsInput, options?: RequestOptions): Promise<StartedWorkflowRuns> =>
        this.request({ method: 'POST', path: '/workflows/runs/bulk', body }, options),
      /**
       * List the runs of a workflow, newest first.
       * Returns the runs without their input and steps, also of a workflow that was deleted. Requires a Project JWT.
       *
       * `GET /workflows/{workflow_key}/runs`
       */
      list: (workflowKey: string, query?: Query<ListWorkflowRunsQuery>, options?: RequestOptions): PageRequest<WorkflowRunRecord> =>
        this.list(`/workflows/${segment(workflowKey)}/runs`, query, options),
    },
  };

  /** The texts of notifications, by channel and language. */
  readonly templates = {
    /**
     * Save a template.
     * Creates the template with this key, or replaces it: new content is a new version. The texts are [Liquid](https://liquidjs.com) and read `user`, `data`, `project`, `unsubscribe_url` and `preferences_url`. Mistakes are reported with their place, and so are unknown variables and partials. The kind of a template cannot be changed. A project can have 1,000 templates with 16 MiB of texts. Requires a Project JWT.
     *
     * `PUT /templates/{template_key}`
     */
    save: (templateKey: string, body: TemplateInput, options?: RequestOptions): Promise<Template> =>
      this.request({ method: 'PUT', path: `/templates/${segment(templateKey)}`, body }, options),
    /**
     * Get a template.
     * Returns the newest version of the template. Requires a Project JWT.
     *
     * `GET /templates/{template_key}`
     */
    get: (templateKey: string, options?: RequestOptions): Promise<Template> =>
      this.request({ method: 'GET', path: `/templates/${segment(templateKey)}` }, options),
    /**
     * Delete a template.
     * If the template is created again, its version numbers continue. A layout or a partial that another template uses cannot be deleted, and neither can a template that the newest version of a workflow names. Requires a Project JWT.
     *
     * `DELETE /templates/{template_key}`
     */
    delete: (templateKey: string, options?: RequestOptions): Promise<void> =>
      this.request({ method: 'DELETE', path: `/templates/${segment(templateKey)}` }, options),
    /**
     * List the templates, newest first.
     * Returns the templates without their texts. Requires a Project JWT.
     *
     * `GET /templates`
     */
    list: (query?: Query<ListQuery>, options?: RequestOptions): PageRequest<TemplateRecord> =>
      this.list('/templates', query, options),
    /**
     * List the versions of a template.
     * Returns the newest 100 versions, newest first, also of a template that was deleted. Requires a Project JWT.
     *
     * `GET /templates/{template_key}/versions`
     */
    listVersions: (templateKey: string, options?: RequestOptions): Promise<TemplateVersionList> =>
      this.request({ method: 'GET', path: `/templates/${segment(templateKey)}/versions` }, options),
    /**
     * Get a version of a template.
     * Returns the texts of one version, also of a template that was deleted. Requires a Project JWT.
     *
     * `GET /templates/{template_key}/versions/{version}`
     */
    getVersion: (templateKey: string, version: string, options?: RequestOptions): Promise<TemplateVersion> =>
      this.request({ method: 'GET', path: `/templates/${segment(templateKey)}/versions/${segment(version)}` }, options),
    /**
     * Restore a version of a template.
     * Saves the texts of the version again, as the newest version. Rejected if it uses a template that was deleted. Requires a Project JWT.
     *
     * `POST /templates/{template_key}/versions/{version}/restore`
     */
    restoreVersion: (templateKey: string, version: string, options?: RequestOptions): Promise<Template> =>
      this.request({ method: 'POST', path: `/templates/${segment(templateKey)}/versions/${segment(version)}/restore` }, options),
    /**
     * Preview a template on a channel.
     * Renders the newest version of a message as a delivery on this channel does, for a user that does not need to exist. Nothing is sent. Layouts and partials have no preview of their own. Requires a Project JWT.
     *
     * `POST /templates/{template_key}/preview`
     */
    preview: (templateKey: string, body: TemplatePreviewInput, options?: RequestOptions): Promise<TemplatePreview> =>
      this.request({ method: 'POST', path: `/templates/${segment(templateKey)}/preview`, body }, options),
  };
}

// Made from openapi.json by `npm run generate`: change the API, not this file.
import { Client, segment } from '../client.ts';
import type { EventOf } from '../event-of.ts';
import type { EventStream } from '../event-stream.ts';
import type { Query, RequestOptions, StreamOptions } from '../options.ts';
import type { PageRequest } from '../page-request.ts';
import type { ApnsToken, ApnsTokenInput, ChatToken, ChatTokenInput, ClickInput, DiscardedToken, ExpoToken, ExpoTokenInput, FcmToken, FcmTokenInput, InboxIntegrationConfig, InboxIntegrationConfigInput, InboxToken, InboxTokenInput, InstallationFinishInput, InstallationStart, InstallationStartInput, ListNotificationsQuery, ListQuery, ListTokensQuery, Notification, NotificationsQuery, SavedApnsToken, SavedChatToken, SavedExpoToken, SavedFcmToken, SavedInboxToken, SavedTeamsToken, SavedWebPushToken, SlackInstallation, Snooze, Subscription, SubscriptionInput, TeamsToken, TeamsTokenInput, UnreadCount, UnseenCount, UserDeliveryWindows, UserPreferences, UserPreferencesInput, WebPushInstallationStart, WebPushToken, WebPushTokenInput } from './types.ts';

/** Acts for one user with a User JWT. For an inbox, on a server or in a browser. */
export class UserClient extends Client {
  /** The inbox of a user. */
  readonly notifications = {
    /**
     * List the notifications of the user, newest first.
     * The order is that of arrival in the inbox: a notification that its category delays is on top when it appears. Archived and snoozed notifications are listed only with that `status`. A page whose texts exceed 16 MiB may have fewer records than `limit`; follow `links.next` until it is `null`. Requires a User JWT.
     *
     * `GET /notifications`
     */
    list: (query?: Query<ListNotificationsQuery>, options?: RequestOptions): PageRequest<Notification> =>
      this.list('/notifications', query, options),
    /**
     * Count the unread notifications of the user.
     * Counts notifications that are neither read nor archived nor snoozed, seen or not. The count is exact up to 5,000. Requires a User JWT.
     *
     * `GET /notifications/unread/count`
     */
    countUnread: (query?: Query<NotificationsQuery>, options?: RequestOptions): Promise<UnreadCount> =>
      this.request({ method: 'GET', path: '/notifications/unread/count', query }, options),
    /**
     * Count the unseen notifications of the user.
     * Counts notifications that the user has not seen, for the number on a bell. The count is exact up to 5,000. Requires a User JWT.
     *
     * `GET /notifications/unseen/count`
     */
    countUnseen: (query?: Query<NotificationsQuery>, options?: RequestOptions): Promise<UnseenCount> =>
      this.request({ method: 'GET', path: '/notifications/unseen/count', query }, options),
    /**
     * Mark all notifications as read.
     * Marks every notification of the user as read and seen, or only those of a category or topic. Open inboxes show the change at once. Requires a User JWT.
     *
     * `POST /notifications/read`
     */
    readAll: (query?: Query<NotificationsQuery>, options?: RequestOptions): Promise<void> =>
      this.request({ method: 'POST', path: '/notifications/read', query }, options),
    /**
     * Mark all notifications as seen.
     * Marks every notification of the user as seen, or only those of a category or topic. Open inboxes show the change at once. Requires a User JWT.
     *
     * `POST /notifications/seen`
     */
    seenAll: (query?: Query<NotificationsQuery>, options?: RequestOptions): Promise<void> =>
      this.request({ method: 'POST', path: '/notifications/seen', query }, options),
    /**
     * Archive all notifications.
     * Archives every notification of the user, or only those of a category or topic. Open inboxes show the change at once. Requires a User JWT.
     *
     * `POST /notifications/archive`
     */
    archiveAll: (query?: Query<NotificationsQuery>, options?: RequestOptions): Promise<void> =>
      this.request({ method: 'POST', path: '/notifications/archive', query }, options),
    /**
     * Get a notification.
     * Returns a notification of the user. Responds 404 for one that the user deleted, and for one that is not in the inbox. Requires a User JWT.
     *
     * `GET /notifications/{notification_id}`
     */
    get: (notificationId: string, options?: RequestOptions): Promise<Notification> =>
      this.request({ method: 'GET', path: `/notifications/${segment(notificationId)}` }, options),
    /**
     * Delete a notification.
     * Removes the notification from the inbox for good. Open inboxes of the user show the change at once. Responds 404 if it was deleted before. Requires a User JWT.
     *
     * `DELETE /notifications/{notification_id}`
     */
    delete: (notificationId: string, options?: RequestOptions): Promise<void> =>
      this.request({ method: 'DELETE', path: `/notifications/${segment(notificationId)}` }, options),
    /**
     * Mark a notification as read.
     * Marks the notification as read and seen. Open inboxes of the user show the change at once. Repeating it has no effect. Requires a User JWT.
     *
     * `POST /notifications/{notification_id}/read`
     */
    read: (notificationId: string, options?: RequestOptions): Promise<void> =>
      this.request({ method: 'POST', path: `/notifications/${segment(notificationId)}/read` }, options),
    /**
     * Mark a notification as unread.
     * Marks the notification as unread; it stays seen. Open inboxes of the user show the change at once. Repeating it has no effect. Requires a User JWT.
     *
     * `POST /notifications/{notification_id}/unread`
     */
    unread: (notificationId: string, options?: RequestOptions): Promise<void> =>
      this.request({ method: 'POST', path: `/notifications/${segment(notificationId)}/unread` }, options),
    /**
     * Mark a notification as seen.
     * Marks the notification as seen; it stays unread. Open inboxes of the user show the change at once. Repeating it has no effect. Requires a User JWT.
     *
     * `POST /notifications/{notification_id}/seen`
     */
    seen: (notificationId: string, options?: RequestOptions): Promise<void> =>
      this.request({ method: 'POST', path: `/notifications/${segment(notificationId)}/seen` }, options),
    /**
     * Archive a notification.
     * Moves the notification to the archive; it no longer counts as unread. Open inboxes of the user show the change at once. Repeating it has no effect. Requires a User JWT.
     *
     * `POST /notifications/{notification_id}/archive`
     */
    archive: (notificationId: string, options?: RequestOptions): Promise<void> =>
      this.request({ method: 'POST', path: `/notifications/${segment(notificationId)}/archive` }, options),
    /**
     * Restore a notification from the archive.
     * Moves the notification back to the inbox, as read or unread as it was. Open inboxes of the user show the change at once. Repeating it has no effect. Requires a User JWT.
     *
     * `POST /notifications/{notification_id}/unarchive`
     */
    unarchive: (notificationId: string, options?: RequestOptions): Promise<void> =>
      this.request({ method: 'POST', path: `/notifications/${segment(notificationId)}/unarchive` }, options),
    /**
     * Snooze a notification.
     * Hides the notification until a time. Then it returns to the top of the inbox, unseen, as if it had just arrived. Snoozing it again replaces the time, and `null` returns it now; archiving or deleting it ends the snooze. Open inboxes of the user show the change at once. Requires a User JWT.
     *
     * `POST /notifications/{notification_id}/snooze`
     */
    snooze: (notificationId: string, body: Snooze, options?: RequestOptions): Promise<void> =>
      this.request({ method: 'POST', path: `/notifications/${segment(notificationId)}/snooze`, body }, options),
    /**
     * Record a click on a notification.
     * For apps that show notifications. Records an event `delivery.clicked` if the project tracks clicks (`PUT /tracking`), and does nothing otherwise. The notification stays unread. Requires a User JWT.
     *
     * `POST /notifications/{notification_id}/click`
     */
    click: (notificationId: string, body?: ClickInput, options?: RequestOptions): Promise<void> =>
      this.request({ method: 'POST', path: `/notifications/${segment(notificationId)}/click`, body }, options),
    /**
     * Stream the notifications of the user.
     * Sends Server-Sent Events whose name says what happened (`notifications/new`, `notifications/read`, …) and whose data is `{id, name, timestamp, data: {id, client_id?, notification?}}`. A client that reconnects with `Last-Event-ID` gets the events that it missed; if they are too many, it gets a `resync` event and should list the notifications. If the user was deleted, it gets 410: resuming a stream does not restore it. The same stream comes by WebSocket at this address, with the sub-protocols `belfry.v1` and `belfry.jwt.<User JWT>` and with `last_event_id` in the query: each message is `{id, event, data}`. With `snapshot`, an inbox opens with this one request. Requires a User JWT.
     *
     * `GET /notifications/stream`
     */
    stream: (options?: StreamOptions): EventStream<EventOf<'streamNotifications'>> =>
      this.stream('/notifications/stream', {}, options),
  };

  /** The devices, browsers, chats and inboxes of a user. */
  readonly channelTokens = {
    apns: {
      /**
       * Save a token.
       * Saving a token again updates its record. A token of another user moves to this user, and a discarded token becomes active again under a new id. A channel of a user has at most 100 active tokens; the oldest is discarded. Requires a User JWT.
       *
       * `PUT /channels/mobile_push/apns/tokens`
       */
      save: (body: ApnsTokenInput, options?: RequestOptions): Promise<SavedApnsToken> =>
        this.request({ method: 'PUT', path: '/channels/mobile_push/apns/tokens', body }, options),
      /**
       * List the active tokens of the user, newest first.
       * Discarded tokens are not listed; get them by their id. Requires a User JWT.
       *
       * `GET /channels/mobile_push/apns/tokens`
       */
      list: (query?: Query<ListQuery>, options?: RequestOptions): PageRequest<ApnsToken> =>
        this.list('/channels/mobile_push/apns/tokens', query, options),
      /**
       * Get a token, active or discarded.
       * Returns a token with its secrets. `discarded_at` of an active token is `null`. Requires a User JWT.
       *
       * `GET /channels/mobile_push/apns/tokens/{token_id}`
       */
      get: (tokenId: string, options?: RequestOptions): Promise<ApnsToken> =>
        this.request({ method: 'GET', path: `/channels/mobile_push/apns/tokens/${segment(tokenId)}` }, options),
      /**
       * Discard a token for good.
       * Nothing is delivered to the token from then on, and its connections are closed. Discarding it again returns the same. Requires a User JWT.
       *
       * `DELETE /channels/mobile_push/apns/tokens/{token_id}`
       */
      discard: (tokenId: string, options?: RequestOptions): Promise<DiscardedToken> =>
        this.request({ method: 'DELETE', path: `/channels/mobile_push/apns/tokens/${segment(tokenId)}` }, options),
    },
    expo: {
      /**
       * Save a token.
       * Saving a token again updates its record. A token of another user moves to this user, and a discarded token becomes active again under a new id. A channel of a user has at most 100 active tokens; the oldest is discarded. Requires a User JWT.
       *
       * `PUT /channels/mobile_push/expo/tokens`
       */
      save: (body: ExpoTokenInput, options?: RequestOptions): Promise<SavedExpoToken> =>
        this.request({ method: 'PUT', path: '/channels/mobile_push/expo/tokens', body }, options),
      /**
       * List the active tokens of the user, newest first.
       * Discarded tokens are not listed; get them by their id. Requires a User JWT.
       *
       * `GET /channels/mobile_push/expo/tokens`
       */
      list: (query?: Query<ListQuery>, options?: RequestOptions): PageRequest<ExpoToken> =>
        this.list('/channels/mobile_push/expo/tokens', query, options),
      /**
       * Get a token, active or discarded.
       * Returns a token with its secrets. `discarded_at` of an active token is `null`. Requires a User JWT.
       *
       * `GET /channels/mobile_push/expo/tokens/{token_id}`
       */
      get: (tokenId: string, options?: RequestOptions): Promise<ExpoToken> =>
        this.request({ method: 'GET', path: `/channels/mobile_push/expo/tokens/${segment(tokenId)}` }, options),
      /**
       * Discard a token for good.
       * Nothing is delivered to the token from then on, and its connections are closed. Discarding it again returns the same. Requires a User JWT.
       *
       * `DELETE /channels/mobile_push/expo/tokens/{token_id}`
       */
      discard: (tokenId: string, options?: RequestOptions): Promise<DiscardedToken> =>
        this.request({ method: 'DELETE', path: `/channels/mobile_push/expo/tokens/${segment(tokenId)}` }, options),
    },
    fcm: {
      /**
       * Save a token.
       * Saving a token again updates its record. A token of another user moves to this user, and a discarded token becomes active again under a new id. A channel of a user has at most 100 active tokens; the oldest is discarded. Requires a User JWT.
       *
       * `PUT /channels/mobile_push/fcm/tokens`
       */
      save: (body: FcmTokenInput, options?: RequestOptions): Promise<SavedFcmToken> =>
        this.request({ method: 'PUT', path: '/channels/mobile_push/fcm/tokens', body }, options),
      /**
       * List the active tokens of the user, newest first.
       * Discarded tokens are not listed; get them by their id. Requires a User JWT.
       *
       * `GET /channels/mobile_push/fcm/tokens`
       */
      list: (query?: Query<ListQuery>, options?: RequestOptions): PageRequest<FcmToken> =>
        this.list('/channels/mobile_push/fcm/tokens', query, options),
      /**
       * Get a token, active or discarded.
       * Returns a token with its secrets. `discarded_at` of an active token is `null`. Requires a User JWT.
       *
       * `GET /channels/mobile_push/fcm/tokens/{token_id}`
       */
      get: (tokenId: string, options?: RequestOptions): Promise<FcmToken> =>
        this.request({ method: 'GET', path: `/channels/mobile_push/fcm/tokens/${segment(tokenId)}` }, options),
      /**
       * Discard a token for good.
       * Nothing is delivered to the token from then on, and its connections are closed. Discarding it again returns the same. Requires a User JWT.
       *
       * `DELETE /channels/mobile_push/fcm/tokens/{token_id}`
       */
      discard: (tokenId: string, options?: RequestOptions): Promise<DiscardedToken> =>
        this.request({ method: 'DELETE', path: `/channels/mobile_push/fcm/tokens/${segment(tokenId)}` }, options),
    },
    inbox: {
      /**
       * Save a token.
       * Saving a token again updates its record. A token of another user moves to this user, and a discarded token becomes active again under a new id. A channel of a user has at most 100 active tokens; the oldest is discarded. Requires a User JWT.
       *
       * `PUT /channels/in_app/inbox/tokens`
       */
      save: (body: InboxTokenInput, options?: RequestOptions): Promise<SavedInboxToken> =>
        this.request({ method: 'PUT', path: '/channels/in_app/inbox/tokens', body }, options),
      /**
       * List the active tokens of the user, newest first.
       * Discarded tokens are not listed; get them by their id. Requires a User JWT.
       *
       * `GET /channels/in_app/inbox/tokens`
       */
      list: (query?: Query<ListQuery>, options?: RequestOptions): PageRequest<InboxToken> =>
        this.list('/channels/in_app/inbox/tokens', query, options),
      /**
       * Get a token, active or discarded.
       * Returns a token with its secrets. `discarded_at` of an active token is `null`. Requires a User JWT.
       *
       * `GET /channels/in_app/inbox/tokens/{token_id}`
       */
      get: (tokenId: string, options?: RequestOptions): Promise<InboxToken> =>
        this.request({ method: 'GET', path: `/channels/in_app/inbox/tokens/${segment(tokenId)}` }, options),
      /**
       * Discard a token for good.
       * Nothing is delivered to the token from then on, and its connections are closed. Discarding it again returns the same. Requires a User JWT.
       *
       * `DELETE /channels/in_app/inbox/tokens/{token_id}`
       */
      discard: (tokenId: string, options?: RequestOptions): Promise<DiscardedToken> =>
        this.request({ method: 'DELETE', path: `/channels/in_app/inbox/tokens/${segment(tokenId)}` }, options),
    },
    slack: {
      /**
       * Save a token.
       * A token is identified by the channel in `oauth`, or else by the URL in `webhook`; several users can have the same token. Saving it again updates its record, or creates a new one if it was discarded. With `oauth`, the id of the active record consists of the installation and the channel. A channel of a user has at most 100 active tokens; the oldest is discarded. Requires a User JWT.
       *
       * `PUT /channels/slack/tokens`
       */
      save: (body: ChatTokenInput, options?: RequestOptions): Promise<SavedChatToken> =>
        this.request({ method: 'PUT', path: '/channels/slack/tokens', body }, options),
      /**
       * List the active tokens of the user, newest first.
       * Discarded tokens are not listed; get them by their id. Requires a User JWT.
       *
       * `GET /channels/slack/tokens`
       */
      list: (query?: Query<ListTokensQuery>, options?: RequestOptions): PageRequest<ChatToken> =>
        this.list('/channels/slack/tokens', query, options),
      /**
       * Get a token, active or discarded.
       * Returns a token with its secrets. `discarded_at` of an active token is `null`. Requires a User JWT.
       *
       * `GET /channels/slack/tokens/{token_id}`
       */
      get: (tokenId: string, options?: RequestOptions): Promise<ChatToken> =>
        this.request({ method: 'GET', path: `/channels/slack/tokens/${segment(tokenId)}` }, options),
      /**
       * Discard a token for good.
       * Nothing is delivered to the token from then on, and its connections are closed. Discarding it again returns the same. Requires a User JWT.
       *
       * `DELETE /channels/slack/tokens/{token_id}`
       */
      discard: (tokenId: string, options?: RequestOptions): Promise<DiscardedToken> =>
        this.request({ method: 'DELETE', path: `/channels/slack/tokens/${segment(tokenId)}` }, options),
    },
    slackbot: {
      /**
       * Save a token.
       * A token is identified by the channel in `oauth`, or else by the URL in `webhook`; several users can have the same token. Saving it again updates its record, or creates a new one if it was discarded. With `oauth`, the id of the active record consists of the installation and the channel. A channel of a user has at most 100 active tokens; the oldest is discarded. Requires a User JWT.
       *
       * `PUT /channels/slack/service_slackbot/tokens`
       */
      save: (body: ChatTokenInput, options?: RequestOptions): Promise<SavedChatToken> =>
        this.request({ method: 'PUT', path: '/channels/slack/service_slackbot/tokens', body }, options),
      /**
       * List the active tokens of the user, newest first.
       * Discarded tokens are not listed; get them by their id. Requires a User JWT.
       *
       * `GET /channels/slack/service_slackbot/tokens`
       */
      list: (query?: Query<ListTokensQuery>, options?: RequestOptions): PageRequest<ChatToken> =>
        this.list('/channels/slack/service_slackbot/tokens', query, options),
      /**
       * Get a token, active or discarded.
       * Returns a token with its secrets. `discarded_at` of an active token is `null`. Requires a User JWT.
       *
       * `GET /channels/slack/service_slackbot/tokens/{token_id}`
       */
      get: (tokenId: string, options?: RequestOptions): Promise<ChatToken> =>
        this.request({ method: 'GET', path: `/channels/slack/service_slackbot/tokens/${segment(tokenId)}` }, options),
      /**
       * Discard a token for good.
       * Nothing is delivered to the token from then on, and its connections are closed. Discarding it again returns the same. Requires a User JWT.
       *
       * `DELETE /channels/slack/service_slackbot/tokens/{token_id}`
       */
      discard: (tokenId: string, options?: RequestOptions): Promise<DiscardedToken> =>
        this.request({ method: 'DELETE', path: `/channels/slack/service_slackbot/tokens/${segment(tokenId)}` }, options),
    },
    teams: {
      /**
       * Save a token.
       * Saving a token again updates its record; several users can have the same token. A discarded token becomes active again under a new id. A channel of a user has at most 100 active tokens; the oldest is discarded. Requires a User JWT.
       *
       * `PUT /channels/teams/tokens`
       */
      save: (body: TeamsTokenInput, options?: RequestOptions): Promise<SavedTeamsToken> =>
        this.request({ method: 'PUT', path: '/channels/teams/tokens', body }, options),
      /**
       * List the active tokens of the user, newest first.
       * Discarded tokens are not listed; get them by their id. Requires a User JWT.
       *
       * `GET /channels/teams/tokens`
       */
      list: (query?: Query<ListQuery>, options?: RequestOptions): PageRequest<TeamsToken> =>
        this.list('/channels/teams/tokens', query, options),
      /**
       * Get a token, active or discarded.
       * Returns a token with its secrets. `discarded_at` of an active token is `null`. Requires a User JWT.
       *
       * `GET /channels/teams/tokens/{token_id}`
       */
      get: (tokenId: string, options?: RequestOptions): Promise<TeamsToken> =>
        this.request({ method: 'GET', path: `/channels/teams/tokens/${segment(tokenId)}` }, options),
      /**
       * Discard a token for good.
       * Nothing is delivered to the token from then on, and its connections are closed. Discarding it again returns the same. Requires a User JWT.
       *
       * `DELETE /channels/teams/tokens/{token_id}`
       */
      discard: (tokenId: string, options?: RequestOptions): Promise<DiscardedToken> =>
        this.request({ method: 'DELETE', path: `/channels/teams/tokens/${segment(tokenId)}` }, options),
    },
    webPush: {
      /**
       * Save a token.
       * Saving a token again updates its record. A token of another user moves to this user, and a discarded token becomes active again under a new id. A channel of a user has at most 100 active tokens; the oldest is discarded. Requires a User JWT.
       *
       * `PUT /channels/web_push/tokens`
       */
      save: (body: WebPushTokenInput, options?: RequestOptions): Promise<SavedWebPushToken> =>
        this.request({ method: 'PUT', path: '/channels/web_push/tokens', body }, options),
      /**
       * List the active tokens of the user, newest first.
       * Discarded tokens are not listed; get them by their id. Requires a User JWT.
       *
       * `GET /channels/web_push/tokens`
       */
      list: (query?: Query<ListQuery>, options?: RequestOptions): PageRequest<WebPushToken> =>
        this.list('/channels/web_push/tokens', query, options),
      /**
       * Get a token, active or discarded.
       * Returns a token with its secrets. `discarded_at` of an active token is `null`. Requires a User JWT.
       *
       * `GET /channels/web_push/tokens/{token_id}`
       */
      get: (tokenId: string, options?: RequestOptions): Promise<WebPushToken> =>
        this.request({ method: 'GET', path: `/channels/web_push/tokens/${segment(tokenId)}` }, options),
      /**
       * Discard a token for good.
       * Nothing is delivered to the token from then on, and its connections are closed. Discarding it again returns the same. Requires a User JWT.
       *
       * `DELETE /channels/web_push/tokens/{token_id}`
       */
      discard: (tokenId: string, options?: RequestOptions): Promise<DiscardedToken> =>
        this.request({ method: 'DELETE', path: `/channels/web_push/tokens/${segment(tokenId)}` }, options),
    },
  };

  /** How users connect a chat workspace, a browser or an inbox. */
  readonly installations = {
    slack: {
      /**
       * Save a slack installation that your app made.
       * For apps that exchange Slack's code themselves. The installation serves only the messages of this user; one made by `finish` serves the whole project. Belfry renews tokens that Slack rotates from then on, so your app must not; saving the same tokens again does not replace renewed ones. Requires a User JWT.
       *
       * `PUT /integrations/slack/installations`
       */
      save: (body: SlackInstallation, options?: RequestOptions): Promise<SlackInstallation> =>
        this.request({ method: 'PUT', path: '/integrations/slack/installations', body }, options),
      /**
       * Start a slack installation.
       * Returns the address to which your app sends the user. Slack sends the user back with a `code` for `finish`. Requires a User JWT.
       *
       * `POST /integrations/slack/installations/start`
       */
      start: (body: InstallationStartInput, options?: RequestOptions): Promise<InstallationStart> =>
        this.request({ method: 'POST', path: '/integrations/slack/installations/start', body }, options),
      /**
       * Finish a slack installation.
       * Exchanges the code for the workspace's tokens and saves them for the project. Send the `state` of the same query, which proves that this user started the installation. Slack accepts a code once, so it may be used up after a 503. With an `Idempotency-Key`, a request that repeats a crashed one gets a 409 with `Retry-After`. Requires a User JWT.
       *
       * `POST /integrations/slack/installations/finish`
       */
      finish: (body: InstallationFinishInput, options?: RequestOptions): Promise<SlackInstallation> =>
        this.request({ method: 'POST', path: '/integrations/slack/installations/finish', body }, options),
    },
    slackbot: {
      /**
       * Save a service_slackbot installation that your app made.
       * For apps that exchange Slack's code themselves. The installation serves only the messages of this user; one made by `finish` serves the whole project. Belfry renews tokens that Slack rotates from then on, so your app must not; saving the same tokens again does not replace renewed ones. Requires a User JWT.
       *
       * `PUT /integrations/service_slackbot/installations`
       */
      save: (body: SlackInstallation, options?: RequestOptions): Promise<SlackInstallation> =>
        this.request({ method: 'PUT', path: '/integrations/service_slackbot/installations', body }, options),
      /**
       * Start a service_slackbot installation.
       * Returns the address to which your app sends the user. Slack sends the user back with a `code` for `finish`. Requires a User JWT.
       *
       * `POST /integrations/service_slackbot/installations/start`
       */
      start: (body: InstallationStartInput, options?: RequestOptions): Promise<InstallationStart> =>
        this.request({ method: 'POST', path: '/integrations/service_slackbot/installations/start', body }, options),
      /**
       * Finish a service_slackbot installation.
       * Exchanges the code for the workspace's tokens and saves them for the project. Send the `state` of the same query, which proves that this user started the installation. Slack accepts a code once, so it may be used up after a 503. With an `Idempotency-Key`, a request that repeats a crashed one gets a 409 with `Retry-After`. Requires a User JWT.
       *
       * `POST /integrations/service_slackbot/installations/finish`
       */
      finish: (body: InstallationFinishInput, options?: RequestOptions): Promise<SlackInstallation> =>
        this.request({ method: 'POST', path: '/integrations/service_slackbot/installations/finish', body }, options),
    },
    inbox: {
      /**
       * Save the inbox config of the user.
       * Replaces the whole config of the inbox integration of the project for this user. Requires a User JWT.
       *
       * `PUT /integrations/inbox/installations`
       */
      save: (body: InboxIntegrationConfigInput, options?: RequestOptions): Promise<InboxIntegrationConfig> =>
        this.request({ method: 'PUT', path: '/integrations/inbox/installations', body }, options),
      /**
       * Get the inbox config of the user.
       * Returns the config that the user saved, or else that of the inbox integration of the project. Members are `null` if neither exists. Open inboxes get it as `inbox/theme` when it is saved. Requires a User JWT.
       *
       * `POST /integrations/inbox/installations/start`
       */
      start: (options?: RequestOptions): Promise<InboxIntegrationConfig> =>
        this.request({ method: 'POST', path: '/integrations/inbox/installations/start' }, options),
    },
    webPush: {
      /**
       * Save a browser's subscription.
       * Does the same as `PUT /channels/web_push/tokens`: notifications reach this browser from then on. Requires a User JWT.
       *
       * `PUT /integrations/web_push/installations`
       */
      save: (body: WebPushTokenInput, options?: RequestOptions): Promise<SavedWebPushToken> =>
        this.request({ method: 'PUT', path: '/integrations/web_push/installations', body }, options),
      /**
       * Get the key with which a browser subscribes.
       * Creates the VAPID keys of the project if it has none. With an `Idempotency-Key`, the stored response is returned only to requests with the same token. Requires a User JWT.
       *
       * `POST /integrations/web_push/installations/start`
       */
      start: (options?: RequestOptions): Promise<WebPushInstallationStart> =>
        this.request({ method: 'POST', path: '/integrations/web_push/installations/start' }, options),
    },
  };

  /** The hours in which messages may be sent. */
  readonly deliveryWindows = {
    /**
     * Get the delivery windows of the user.
     * Returns the windows that the user saved. Other channels use those of the project. Requires a User JWT.
     *
     * `GET /channels/user_delivery_windows`
     */
    get: (options?: RequestOptions): Promise<UserDeliveryWindows> =>
      this.request({ method: 'GET', path: '/channels/user_delivery_windows' }, options),
    /**
     * Save the delivery windows of the user.
     * Replaces the saved windows. On the channels in the body they apply instead of the windows of the project and its categories. A `critical` category is sent at any time. Requires a User JWT.
     *
     * `PUT /channels/user_delivery_windows`
     */
    save: (body: UserDeliveryWindows, options?: RequestOptions): Promise<UserDeliveryWindows> =>
      this.request({ method: 'PUT', path: '/channels/user_delivery_windows', body }, options),
  };

  /** The categories and channels that a user wants. */
  readonly preferences = {
    /**
     * Get the preferences of the user.
     * Lists the categories that the project has configured and those for which the user saved a preference, each with its channels. A channel is enabled until the user switches it off. Labels and descriptions are in the language of the user. `preferences_url` is a page for end users. Requires a User JWT.
     *
     * `GET /channels/user_preferences`
     */
    get: (options?: RequestOptions): Promise<UserPreferences> =>
      this.request({ method: 'GET', path: '/channels/user_preferences' }, options),
    /**
     * Switch categories on or off for the user.
     * Changes only what is in the body. A category need not exist yet: the preference applies from its first broadcast. Switching off a `required` category is a 422; `enabled: true` is accepted for it and has no effect. During `quiet_hours` text messages, push and chat messages wait; `null` removes them. Requires a User JWT.
     *
     * `PUT /channels/user_preferences`
     */
    save: (body: UserPreferencesInput, options?: RequestOptions): Promise<void> =>
      this.request({ method: 'PUT', path: '/channels/user_preferences', body }, options),
  };

  /** The topics that a user subscribes to. */
  readonly topics = {
    /**
     * Subscribe to a topic or unsubscribe from it.
     * Changes only the categories in the body. A broadcast to the subscribers of the topic reaches the user according to the status of its category, or of `*` if its category has none; unsubscribing from `*` removes all other categories. A broadcast that names the user as a recipient arrives in any case. Requires a User JWT.
     *
     * `POST /subscriptions`
     */
    saveSubscription: (body: SubscriptionInput, options?: RequestOptions): Promise<Subscription> =>
      this.request({ method: 'POST', path: '/subscriptions', body }, options),
    /**
     * List the subscriptions of the user, newest first.
     * Returns every topic that the user subscribed to or unsubscribed from, with the status of its categories. Requires a User JWT.
     *
     * `GET /subscriptions`
     */
    listSubscriptions: (query?: Query<ListQuery>, options?: RequestOptions): PageRequest<Subscription> =>
      this.list('/subscriptions', query, options),
    /**
     * Delete a subscription.
     * Removes the topic with all its categories: broadcasts to its subscribers no longer reach the user. Returns the deleted subscription. Requires a User JWT.
     *
     * `DELETE /subscriptions/{topic}`
     */
    deleteSubscription: (topic: string, options?: RequestOptions): Promise<Subscription> =>
      this.request({ method: 'DELETE', path: `/subscriptions/${segment(topic)}` }, options),
  };
}

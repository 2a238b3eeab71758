// Made from openapi.json by `npm run generate`: change the API, not this file.
// biome-ignore-all format: it is written by a program and read in editors, a member at a time
// biome-ignore-all assist/source/organizeImports: likewise
import { Client, segment } from '../client.ts';
import type { EventOf } from '../event-of.ts';
import type { EventStream } from '../event-stream.ts';
import type { RequestOptions, StreamOptions } from '../options.ts';
import type { PageRequest } from '../page-request.ts';
import type { ApnsToken, ApnsTokenInput, ChatToken, ChatTokenInput, ClickInput, DiscardedToken, ExpoToken, ExpoTokenInput, FcmToken, FcmTokenInput, InboxIntegrationConfig, InboxIntegrationConfigInput, InboxToken, InboxTokenInput, InstallationFinishInput, InstallationStart, InstallationStartInput, ListNotificationsQuery, ListQuery, Notification, NotificationsQuery, SavedApnsToken, SavedChatToken, SavedExpoToken, SavedFcmToken, SavedInboxToken, SavedTeamsToken, SavedWebPushToken, SlackInstallation, Subscription, SubscriptionInput, TeamsToken, TeamsTokenInput, UnreadCount, UserDeliveryWindows, UserPreferences, UserPreferencesInput, WebPushInstallationStart, WebPushToken, WebPushTokenInput } from './types.ts';

/** Speaks for one user with a User JWT: what an inbox needs, on a server or in a browser. */
export class UserClient extends Client {
  /** What a user received: the inbox's list and states. */
  readonly notifications = {
    /**
     * List the user's notifications, newest first.
     * In the order in which they reached the inbox: one that is shown later, after the delay of its category, is at the top when it is shown. A page whose texts are very large (16 MiB and more together) may hold fewer than `limit`; `links.next` tells whether there are more.
     *
     * `GET /notifications`
     */
    list: (query?: ListNotificationsQuery, options?: RequestOptions): PageRequest<Notification> =>
      this.list('/notifications', query, options),
    /**
     * Count the user's unread notifications.
     *
     * `GET /notifications/unread/count`
     */
    countUnread: (query?: NotificationsQuery, options?: RequestOptions): Promise<UnreadCount> =>
      this.request({ method: 'GET', path: '/notifications/unread/count', query }, options),
    /**
     * Mark all notifications read.
     * All, or those of a category or topic.
     *
     * `POST /notifications/read`
     */
    readAll: (query?: NotificationsQuery, options?: RequestOptions): Promise<void> =>
      this.request({ method: 'POST', path: '/notifications/read', query }, options),
    /**
     * Mark all notifications seen.
     * All, or those of a category or topic.
     *
     * `POST /notifications/seen`
     */
    seenAll: (query?: NotificationsQuery, options?: RequestOptions): Promise<void> =>
      this.request({ method: 'POST', path: '/notifications/seen', query }, options),
    /**
     * Archive all notifications.
     * All, or those of a category or topic.
     *
     * `POST /notifications/archive`
     */
    archiveAll: (query?: NotificationsQuery, options?: RequestOptions): Promise<void> =>
      this.request({ method: 'POST', path: '/notifications/archive', query }, options),
    /**
     * Get a notification.
     *
     * `GET /notifications/{notification_id}`
     */
    get: (notificationId: string, options?: RequestOptions): Promise<Notification> =>
      this.request({ method: 'GET', path: `/notifications/${segment(notificationId)}` }, options),
    /**
     * Delete a notification.
     *
     * `DELETE /notifications/{notification_id}`
     */
    delete: (notificationId: string, options?: RequestOptions): Promise<void> =>
      this.request({ method: 'DELETE', path: `/notifications/${segment(notificationId)}` }, options),
    /**
     * Mark a notification read, and seen.
     *
     * `POST /notifications/{notification_id}/read`
     */
    read: (notificationId: string, options?: RequestOptions): Promise<void> =>
      this.request({ method: 'POST', path: `/notifications/${segment(notificationId)}/read` }, options),
    /**
     * Mark a notification unread; it stays seen.
     *
     * `POST /notifications/{notification_id}/unread`
     */
    unread: (notificationId: string, options?: RequestOptions): Promise<void> =>
      this.request({ method: 'POST', path: `/notifications/${segment(notificationId)}/unread` }, options),
    /**
     * Mark a notification seen.
     *
     * `POST /notifications/{notification_id}/seen`
     */
    seen: (notificationId: string, options?: RequestOptions): Promise<void> =>
      this.request({ method: 'POST', path: `/notifications/${segment(notificationId)}/seen` }, options),
    /**
     * Archive a notification.
     *
     * `POST /notifications/{notification_id}/archive`
     */
    archive: (notificationId: string, options?: RequestOptions): Promise<void> =>
      this.request({ method: 'POST', path: `/notifications/${segment(notificationId)}/archive` }, options),
    /**
     * Take a notification out of the archive.
     *
     * `POST /notifications/{notification_id}/unarchive`
     */
    unarchive: (notificationId: string, options?: RequestOptions): Promise<void> =>
      this.request({ method: 'POST', path: `/notifications/${segment(notificationId)}/unarchive` }, options),
    /**
     * Record that the user has clicked a notification.
     * For clients that show it. Recorded where the project has `clicks` tracked (`PUT /tracking`), as an event `delivery.clicked`; without it there is nothing to do. Marks nothing as read.
     *
     * `POST /notifications/{notification_id}/click`
     */
    click: (notificationId: string, body?: ClickInput, options?: RequestOptions): Promise<void> =>
      this.request({ method: 'POST', path: `/notifications/${segment(notificationId)}/click`, body }, options),
    /**
     * Stream a user's notifications.
     * Server-Sent Events. Each has the name of what happened (`notifications/new`, `notifications/read`, …) and JSON data `{id, name, timestamp, data: {id, client_id?, notification?}}`. A client that comes back with `Last-Event-ID` is told what it missed, in order; when that is too much or cannot be told, a `resync` event asks it to fetch the list.
     *
     * `GET /notifications/stream`
     */
    stream: (options?: StreamOptions): EventStream<EventOf<'streamNotifications', Notification>> =>
      this.stream('/notifications/stream', {}, options),
  };

  /** Where a user can be reached. */
  readonly channelTokens = {
    inbox: {
      /**
       * Save a token.
       * Saving the same token again updates its record. A token that another user had saved moves to this one; one that was discarded becomes active again under a new id. A user has 100 active tokens of a channel at most: a new one beyond them discards the oldest.
       *
       * `PUT /channels/in_app/inbox/tokens`
       */
      save: (body: InboxTokenInput, options?: RequestOptions): Promise<SavedInboxToken> =>
        this.request({ method: 'PUT', path: '/channels/in_app/inbox/tokens', body }, options),
      /**
       * List the user's active tokens, newest first.
       *
       * `GET /channels/in_app/inbox/tokens`
       */
      list: (query?: ListQuery, options?: RequestOptions): PageRequest<InboxToken> =>
        this.list('/channels/in_app/inbox/tokens', query, options),
      /**
       * Get a token, active or discarded.
       *
       * `GET /channels/in_app/inbox/tokens/{token_id}`
       */
      get: (tokenId: string, options?: RequestOptions): Promise<InboxToken> =>
        this.request({ method: 'GET', path: `/channels/in_app/inbox/tokens/${segment(tokenId)}` }, options),
      /**
       * Discard a token for good.
       * Nothing is delivered to it any more, and its connections are closed. Discarding it again answers the same.
       *
       * `DELETE /channels/in_app/inbox/tokens/{token_id}`
       */
      discard: (tokenId: string, options?: RequestOptions): Promise<DiscardedToken> =>
        this.request({ method: 'DELETE', path: `/channels/in_app/inbox/tokens/${segment(tokenId)}` }, options),
    },
    apns: {
      /**
       * Save a token.
       * Saving the same token again updates its record. A token that another user had saved moves to this one; one that was discarded becomes active again under a new id. A user has 100 active tokens of a channel at most: a new one beyond them discards the oldest.
       *
       * `PUT /channels/mobile_push/apns/tokens`
       */
      save: (body: ApnsTokenInput, options?: RequestOptions): Promise<SavedApnsToken> =>
        this.request({ method: 'PUT', path: '/channels/mobile_push/apns/tokens', body }, options),
      /**
       * List the user's active tokens, newest first.
       *
       * `GET /channels/mobile_push/apns/tokens`
       */
      list: (query?: ListQuery, options?: RequestOptions): PageRequest<ApnsToken> =>
        this.list('/channels/mobile_push/apns/tokens', query, options),
      /**
       * Get a token, active or discarded.
       *
       * `GET /channels/mobile_push/apns/tokens/{token_id}`
       */
      get: (tokenId: string, options?: RequestOptions): Promise<ApnsToken> =>
        this.request({ method: 'GET', path: `/channels/mobile_push/apns/tokens/${segment(tokenId)}` }, options),
      /**
       * Discard a token for good.
       * Nothing is delivered to it any more, and its connections are closed. Discarding it again answers the same.
       *
       * `DELETE /channels/mobile_push/apns/tokens/{token_id}`
       */
      discard: (tokenId: string, options?: RequestOptions): Promise<DiscardedToken> =>
        this.request({ method: 'DELETE', path: `/channels/mobile_push/apns/tokens/${segment(tokenId)}` }, options),
    },
    expo: {
      /**
       * Save a token.
       * Saving the same token again updates its record. A token that another user had saved moves to this one; one that was discarded becomes active again under a new id. A user has 100 active tokens of a channel at most: a new one beyond them discards the oldest.
       *
       * `PUT /channels/mobile_push/expo/tokens`
       */
      save: (body: ExpoTokenInput, options?: RequestOptions): Promise<SavedExpoToken> =>
        this.request({ method: 'PUT', path: '/channels/mobile_push/expo/tokens', body }, options),
      /**
       * List the user's active tokens, newest first.
       *
       * `GET /channels/mobile_push/expo/tokens`
       */
      list: (query?: ListQuery, options?: RequestOptions): PageRequest<ExpoToken> =>
        this.list('/channels/mobile_push/expo/tokens', query, options),
      /**
       * Get a token, active or discarded.
       *
       * `GET /channels/mobile_push/expo/tokens/{token_id}`
       */
      get: (tokenId: string, options?: RequestOptions): Promise<ExpoToken> =>
        this.request({ method: 'GET', path: `/channels/mobile_push/expo/tokens/${segment(tokenId)}` }, options),
      /**
       * Discard a token for good.
       * Nothing is delivered to it any more, and its connections are closed. Discarding it again answers the same.
       *
       * `DELETE /channels/mobile_push/expo/tokens/{token_id}`
       */
      discard: (tokenId: string, options?: RequestOptions): Promise<DiscardedToken> =>
        this.request({ method: 'DELETE', path: `/channels/mobile_push/expo/tokens/${segment(tokenId)}` }, options),
    },
    fcm: {
      /**
       * Save a token.
       * Saving the same token again updates its record. A token that another user had saved moves to this one; one that was discarded becomes active again under a new id. A user has 100 active tokens of a channel at most: a new one beyond them discards the oldest.
       *
       * `PUT /channels/mobile_push/fcm/tokens`
       */
      save: (body: FcmTokenInput, options?: RequestOptions): Promise<SavedFcmToken> =>
        this.request({ method: 'PUT', path: '/channels/mobile_push/fcm/tokens', body }, options),
      /**
       * List the user's active tokens, newest first.
       *
       * `GET /channels/mobile_push/fcm/tokens`
       */
      list: (query?: ListQuery, options?: RequestOptions): PageRequest<FcmToken> =>
        this.list('/channels/mobile_push/fcm/tokens', query, options),
      /**
       * Get a token, active or discarded.
       *
       * `GET /channels/mobile_push/fcm/tokens/{token_id}`
       */
      get: (tokenId: string, options?: RequestOptions): Promise<FcmToken> =>
        this.request({ method: 'GET', path: `/channels/mobile_push/fcm/tokens/${segment(tokenId)}` }, options),
      /**
       * Discard a token for good.
       * Nothing is delivered to it any more, and its connections are closed. Discarding it again answers the same.
       *
       * `DELETE /channels/mobile_push/fcm/tokens/{token_id}`
       */
      discard: (tokenId: string, options?: RequestOptions): Promise<DiscardedToken> =>
        this.request({ method: 'DELETE', path: `/channels/mobile_push/fcm/tokens/${segment(tokenId)}` }, options),
    },
    slack: {
      /**
       * Save a token.
       * A token is the channel that `oauth` names, or the address of the `webhook` where there is no `oauth`. Saving the same token again updates its record. Several users may have the same; one that was discarded stays discarded, and a new record is made. With `oauth` the id of the active record is always made of the installation and the channel. A user has 100 active tokens of a channel at most: a new one beyond them discards the oldest.
       *
       * `PUT /channels/slack/tokens`
       */
      save: (body: ChatTokenInput, options?: RequestOptions): Promise<SavedChatToken> =>
        this.request({ method: 'PUT', path: '/channels/slack/tokens', body }, options),
      /**
       * List the user's active tokens, newest first.
       *
       * `GET /channels/slack/tokens`
       */
      list: (query?: ListQuery, options?: RequestOptions): PageRequest<ChatToken> =>
        this.list('/channels/slack/tokens', query, options),
      /**
       * Get a token, active or discarded.
       *
       * `GET /channels/slack/tokens/{token_id}`
       */
      get: (tokenId: string, options?: RequestOptions): Promise<ChatToken> =>
        this.request({ method: 'GET', path: `/channels/slack/tokens/${segment(tokenId)}` }, options),
      /**
       * Discard a token for good.
       * Nothing is delivered to it any more, and its connections are closed. Discarding it again answers the same.
       *
       * `DELETE /channels/slack/tokens/{token_id}`
       */
      discard: (tokenId: string, options?: RequestOptions): Promise<DiscardedToken> =>
        this.request({ method: 'DELETE', path: `/channels/slack/tokens/${segment(tokenId)}` }, options),
    },
    slackbot: {
      /**
       * Save a token.
       * A token is the channel that `oauth` names, or the address of the `webhook` where there is no `oauth`. Saving the same token again updates its record. Several users may have the same; one that was discarded stays discarded, and a new record is made. With `oauth` the id of the active record is always made of the installation and the channel. A user has 100 active tokens of a channel at most: a new one beyond them discards the oldest.
       *
       * `PUT /channels/slack/service_slackbot/tokens`
       */
      save: (body: ChatTokenInput, options?: RequestOptions): Promise<SavedChatToken> =>
        this.request({ method: 'PUT', path: '/channels/slack/service_slackbot/tokens', body }, options),
      /**
       * List the user's active tokens, newest first.
       *
       * `GET /channels/slack/service_slackbot/tokens`
       */
      list: (query?: ListQuery, options?: RequestOptions): PageRequest<ChatToken> =>
        this.list('/channels/slack/service_slackbot/tokens', query, options),
      /**
       * Get a token, active or discarded.
       *
       * `GET /channels/slack/service_slackbot/tokens/{token_id}`
       */
      get: (tokenId: string, options?: RequestOptions): Promise<ChatToken> =>
        this.request({ method: 'GET', path: `/channels/slack/service_slackbot/tokens/${segment(tokenId)}` }, options),
      /**
       * Discard a token for good.
       * Nothing is delivered to it any more, and its connections are closed. Discarding it again answers the same.
       *
       * `DELETE /channels/slack/service_slackbot/tokens/{token_id}`
       */
      discard: (tokenId: string, options?: RequestOptions): Promise<DiscardedToken> =>
        this.request({ method: 'DELETE', path: `/channels/slack/service_slackbot/tokens/${segment(tokenId)}` }, options),
    },
    teams: {
      /**
       * Save a token.
       * Saving the same token again updates its record. Several users may have the same; one that was discarded becomes active again under a new id. A user has 100 active tokens of a channel at most: a new one beyond them discards the oldest.
       *
       * `PUT /channels/teams/tokens`
       */
      save: (body: TeamsTokenInput, options?: RequestOptions): Promise<SavedTeamsToken> =>
        this.request({ method: 'PUT', path: '/channels/teams/tokens', body }, options),
      /**
       * List the user's active tokens, newest first.
       *
       * `GET /channels/teams/tokens`
       */
      list: (query?: ListQuery, options?: RequestOptions): PageRequest<TeamsToken> =>
        this.list('/channels/teams/tokens', query, options),
      /**
       * Get a token, active or discarded.
       *
       * `GET /channels/teams/tokens/{token_id}`
       */
      get: (tokenId: string, options?: RequestOptions): Promise<TeamsToken> =>
        this.request({ method: 'GET', path: `/channels/teams/tokens/${segment(tokenId)}` }, options),
      /**
       * Discard a token for good.
       * Nothing is delivered to it any more, and its connections are closed. Discarding it again answers the same.
       *
       * `DELETE /channels/teams/tokens/{token_id}`
       */
      discard: (tokenId: string, options?: RequestOptions): Promise<DiscardedToken> =>
        this.request({ method: 'DELETE', path: `/channels/teams/tokens/${segment(tokenId)}` }, options),
    },
    webPush: {
      /**
       * Save a token.
       * Saving the same token again updates its record. A token that another user had saved moves to this one; one that was discarded becomes active again under a new id. A user has 100 active tokens of a channel at most: a new one beyond them discards the oldest.
       *
       * `PUT /channels/web_push/tokens`
       */
      save: (body: WebPushTokenInput, options?: RequestOptions): Promise<SavedWebPushToken> =>
        this.request({ method: 'PUT', path: '/channels/web_push/tokens', body }, options),
      /**
       * List the user's active tokens, newest first.
       *
       * `GET /channels/web_push/tokens`
       */
      list: (query?: ListQuery, options?: RequestOptions): PageRequest<WebPushToken> =>
        this.list('/channels/web_push/tokens', query, options),
      /**
       * Get a token, active or discarded.
       *
       * `GET /channels/web_push/tokens/{token_id}`
       */
      get: (tokenId: string, options?: RequestOptions): Promise<WebPushToken> =>
        this.request({ method: 'GET', path: `/channels/web_push/tokens/${segment(tokenId)}` }, options),
      /**
       * Discard a token for good.
       * Nothing is delivered to it any more, and its connections are closed. Discarding it again answers the same.
       *
       * `DELETE /channels/web_push/tokens/{token_id}`
       */
      discard: (tokenId: string, options?: RequestOptions): Promise<DiscardedToken> =>
        this.request({ method: 'DELETE', path: `/channels/web_push/tokens/${segment(tokenId)}` }, options),
    },
  };

  /** How users connect their workspace, their browser and their inbox. */
  readonly installations = {
    slack: {
      /**
       * Save a slack installation that was made elsewhere.
       * For programs that exchange Slack's code themselves. It serves this user's messages alone; one that `finish` has made serves everybody's in the project. Tokens that Slack rotates are renewed from then on, so whoever saves them must not renew them, too. The same tokens saved again do not take the place of renewed ones.
       *
       * `PUT /integrations/slack/installations`
       */
      save: (body: SlackInstallation, options?: RequestOptions): Promise<SlackInstallation> =>
        this.request({ method: 'PUT', path: '/integrations/slack/installations', body }, options),
      /**
       * Start a slack installation.
       * Answers the address to send the user to. Slack sends the user back with a `code`, which `finish` takes.
       *
       * `POST /integrations/slack/installations/start`
       */
      start: (body: InstallationStartInput, options?: RequestOptions): Promise<InstallationStart> =>
        this.request({ method: 'POST', path: '/integrations/slack/installations/start', body }, options),
      /**
       * Finish a slack installation.
       * Exchanges the code for the workspace's tokens and saves them for the project. Give the `state` of the same query along: it proves that this user started what is finished here. A code is good for one time: after a 503 it may be used up. With an `Idempotency-Key` a concurrent request waits for the response of the first; after a crash it is a 409 with `Retry-After`.
       *
       * `POST /integrations/slack/installations/finish`
       */
      finish: (body: InstallationFinishInput, options?: RequestOptions): Promise<SlackInstallation> =>
        this.request({ method: 'POST', path: '/integrations/slack/installations/finish', body }, options),
    },
    slackbot: {
      /**
       * Save a service_slackbot installation that was made elsewhere.
       * For programs that exchange Slack's code themselves. It serves this user's messages alone; one that `finish` has made serves everybody's in the project. Tokens that Slack rotates are renewed from then on, so whoever saves them must not renew them, too. The same tokens saved again do not take the place of renewed ones.
       *
       * `PUT /integrations/service_slackbot/installations`
       */
      save: (body: SlackInstallation, options?: RequestOptions): Promise<SlackInstallation> =>
        this.request({ method: 'PUT', path: '/integrations/service_slackbot/installations', body }, options),
      /**
       * Start a service_slackbot installation.
       * Answers the address to send the user to. Slack sends the user back with a `code`, which `finish` takes.
       *
       * `POST /integrations/service_slackbot/installations/start`
       */
      start: (body: InstallationStartInput, options?: RequestOptions): Promise<InstallationStart> =>
        this.request({ method: 'POST', path: '/integrations/service_slackbot/installations/start', body }, options),
      /**
       * Finish a service_slackbot installation.
       * Exchanges the code for the workspace's tokens and saves them for the project. Give the `state` of the same query along: it proves that this user started what is finished here. A code is good for one time: after a 503 it may be used up. With an `Idempotency-Key` a concurrent request waits for the response of the first; after a crash it is a 409 with `Retry-After`.
       *
       * `POST /integrations/service_slackbot/installations/finish`
       */
      finish: (body: InstallationFinishInput, options?: RequestOptions): Promise<SlackInstallation> =>
        this.request({ method: 'POST', path: '/integrations/service_slackbot/installations/finish', body }, options),
    },
    inbox: {
      /**
       * Save how the user's own inbox looks.
       * Takes the place of the project's inbox integration for this user, as a whole.
       *
       * `PUT /integrations/inbox/installations`
       */
      save: (body: InboxIntegrationConfigInput, options?: RequestOptions): Promise<InboxIntegrationConfig> =>
        this.request({ method: 'PUT', path: '/integrations/inbox/installations', body }, options),
      /**
       * Ask how the user's inbox looks.
       * As the user has it, else as the project's integration has it, else all `null`.
       *
       * `POST /integrations/inbox/installations/start`
       */
      start: (options?: RequestOptions): Promise<InboxIntegrationConfig> =>
        this.request({ method: 'POST', path: '/integrations/inbox/installations/start' }, options),
    },
    webPush: {
      /**
       * Save a browser's subscription.
       * The same as saving a web push token.
       *
       * `PUT /integrations/web_push/installations`
       */
      save: (body: WebPushTokenInput, options?: RequestOptions): Promise<SavedWebPushToken> =>
        this.request({ method: 'PUT', path: '/integrations/web_push/installations', body }, options),
      /**
       * Ask what a browser needs to subscribe.
       * Makes the project's VAPID keys when it has none. With an `Idempotency-Key` a repeat is answered the same where it comes with the same token.
       *
       * `POST /integrations/web_push/installations/start`
       */
      start: (options?: RequestOptions): Promise<WebPushInstallationStart> =>
        this.request({ method: 'POST', path: '/integrations/web_push/installations/start' }, options),
    },
  };

  /** At what times messages may come; at others they wait. */
  readonly deliveryWindows = {
    /**
     * Get when messages reach the user.
     *
     * `GET /channels/user_delivery_windows`
     */
    get: (options?: RequestOptions): Promise<UserDeliveryWindows> =>
      this.request({ method: 'GET', path: '/channels/user_delivery_windows' }, options),
    /**
     * Save when messages reach the user.
     * Replaces what the user said before. On the channels that are named it counts instead of what the project and its categories have; `critical` categories come at any time.
     *
     * `PUT /channels/user_delivery_windows`
     */
    save: (body: UserDeliveryWindows, options?: RequestOptions): Promise<UserDeliveryWindows> =>
      this.request({ method: 'PUT', path: '/channels/user_delivery_windows', body }, options),
  };

  /** What a user wants to get, and where. */
  readonly preferences = {
    /**
     * Get on which channels the user gets which categories.
     * Lists the categories that the project has configured and those about which the user has said something. What nobody switched off is on.
     *
     * `GET /channels/user_preferences`
     */
    get: (options?: RequestOptions): Promise<UserPreferences> =>
      this.request({ method: 'GET', path: '/channels/user_preferences' }, options),
    /**
     * Switch categories on or off on channels.
     * Changes what is named, and nothing else. A category need not be known: what is said about it counts from its first broadcast on. A `required` category cannot be switched off: that is a 422, while `enabled: true` is accepted and changes nothing.
     *
     * `PUT /channels/user_preferences`
     */
    save: (body: UserPreferencesInput, options?: RequestOptions): Promise<void> =>
      this.request({ method: 'PUT', path: '/channels/user_preferences', body }, options),
  };

  /** What users subscribe to. */
  readonly topics = {
    /**
     * Subscribe to a topic, or to categories of it, or unsubscribe.
     * A broadcast that is sent to the subscribers of its topic reaches who is subscribed to its category: the status of that category counts or, where there is none, that of `*`. Changes what is named, and nothing else; unsubscribing from `*` leaves the topic, and takes back what was said about single categories. Saying the same again changes nothing. A broadcast that names the user as a recipient is not held back by it.
     *
     * `POST /subscriptions`
     */
    saveSubscription: (body: SubscriptionInput, options?: RequestOptions): Promise<Subscription> =>
      this.request({ method: 'POST', path: '/subscriptions', body }, options),
    /**
     * List the topics about which the user has said something, the newest first.
     *
     * `GET /subscriptions`
     */
    listSubscriptions: (query?: ListQuery, options?: RequestOptions): PageRequest<Subscription> =>
      this.list('/subscriptions', query, options),
    /**
     * Forget all that the user has said about a topic.
     * The user is then subscribed to no category of it. Answers what was forgotten.
     *
     * `DELETE /subscriptions/{topic}`
     */
    deleteSubscription: (topic: string, options?: RequestOptions): Promise<Subscription> =>
      this.request({ method: 'DELETE', path: `/subscriptions/${segment(topic)}` }, options),
  };
}

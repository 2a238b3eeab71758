// Made from openapi.json by `npm run generate`: change the API, not this file.

/** All users of the project. Only version 1 of the API accepts it. */
export type AllUsers = {
    matches: '*';
};

export type ApnsIntegration = {
    name: 'apns';
    id: string;
    config: ApnsIntegrationConfig | null;
    error?: UnreadableConfig;
    state?: IntegrationState;
};

export type ApnsIntegrationConfig = {
    /** The bundle identifier of the app, for tokens without an `app_id` */
    app_id: string;
    /** What the number on the app's icon counts */
    badge: 'unread' | 'unseen';
    /** The signing key: the content of the .p8 file from Apple, with its line breaks */
    certificate: string;
    /** The id of the signing key */
    key_id: string;
    /** The id of the developer team */
    team_id: string;
    /** Accepted for compatibility and ignored: the payload has the same layout for both */
    payload_version?: '1' | '2';
};

export type ApnsIntegrationList = {
    data: Array<ApnsIntegration>;
    links: PageLinks;
};

export type ApnsToken = {
    id: string;
    /** The device token in hexadecimal, as iOS returns it to the app. */
    device_token: string;
    /** The app's bundle identifier, if it differs from the integration's. */
    app_id?: string;
    /** The environment of the token: `production` if not given. */
    installation_id?: 'development' | 'production';
    created_at: string;
    updated_at: string | null;
    discarded_at: string | null;
};

export type ApnsTokenInput = {
    /** The device token in hexadecimal, as iOS returns it to the app. */
    device_token: string;
    /** The app's bundle identifier, if it differs from the integration's. */
    app_id?: string;
    /** The environment of the token: `production` if not given. */
    installation_id?: 'development' | 'production';
};

export type ApnsTokenList = {
    data: Array<ApnsToken>;
    links: PageLinks;
};

export type Broadcast = {
    id: string;
    title: string;
    content: string | null;
    action_url: string | null;
    category: string | null;
    topic: string | null;
    /** Data of your own. */
    custom_attributes: {
        [key: string]: unknown;
    } | null;
    recipients: Array<SentRecipient> | null;
    overrides: BroadcastOverrides | null;
    template?: SentTemplate;
    created_at: string;
    /** When it is or was to be sent, if the request had a time. */
    send_at: string | null;
    /** When it was cancelled. */
    cancelled_at: string | null;
    status: BroadcastStatus;
};

export type BroadcastCancelledEvent = EventBase & {
    type: 'broadcast.cancelled';
    context: BroadcastContext;
};

export type BroadcastCancelledMessage = {
    type: 'broadcast.cancelled';
    /** The time of the event. */
    timestamp: string;
    data: BroadcastCancelledEvent;
};

export type BroadcastContext = {
    broadcast_id: string;
};

export type BroadcastCreatedEvent = EventBase & {
    type: 'broadcast.created';
    context: BroadcastContext;
};

export type BroadcastCreatedMessage = {
    type: 'broadcast.created';
    /** The time of the event. */
    timestamp: string;
    data: BroadcastCreatedEvent;
};

export type BroadcastError = {
    message: string;
};

export type BroadcastInput = ({
    title: unknown;
} | {
    template: unknown;
}) & {
    /** The title. Required unless there is a `template`. */
    title?: string;
    /** The text. The inbox and e-mails render HTML. */
    content?: string | null;
    /** The address that a click opens. */
    action_url?: string | null;
    category?: string | null;
    topic?: string | null;
    /** Data of your own. Clients get it unchanged. */
    custom_attributes?: {
        [key: string]: unknown;
    } | null;
    recipients: Array<Recipient> | null;
    overrides?: BroadcastOverrides | null;
    /** When it is sent: up to 400 days from now. It is sent at once without a time, or with one in the past. Until then it can be cancelled. */
    send_at?: string | null;
    template?: BroadcastTemplate | null;
    readonly id?: string;
    readonly created_at?: string;
    readonly cancelled_at?: string | null;
    readonly status?: BroadcastStatus;
};

export type BroadcastList = {
    data: Array<Broadcast>;
    links: PageLinks;
};

export type BroadcastOverrides = {
    channels?: ChannelOverrides;
    providers?: ProviderOverrides;
};

export type BroadcastProcessedEvent = EventBase & {
    type: 'broadcast.processed';
    context: BroadcastContext;
    payload?: BroadcastSummary;
};

export type BroadcastProcessedMessage = {
    type: 'broadcast.processed';
    /** The time of the event. */
    timestamp: string;
    data: BroadcastProcessedEvent;
};

export type BroadcastStatus = {
    /** `processed`: every delivery that was due at once has had its first attempt, or was deferred. Retries, deferred and scheduled deliveries continue after that. `summary` and `errors` are correct at any time. */
    status: 'enqueued' | 'processing' | 'processed';
    summary: BroadcastSummary;
    /** Recipients that could not be used, then up to 1000 deliveries that failed. In a list of broadcasts, up to 10 deliveries of each. If there are more, the last message says so. */
    errors: Array<BroadcastError> | null;
};

export type BroadcastSummary = {
    /** Recipients that could not be used, and users for whom a delivery failed on at least one channel, so far. */
    failures: number;
    /** Users addressed so far, each counted once, and recipients that could not be used. Subscribers of a topic are added until the broadcast is `processed`. */
    total: number;
    /** Deliveries on all channels that have not ended: not attempted, retried, deferred or scheduled. Counted from `processing` on. */
    pending: number;
};

/** The template of the texts, instead of `title`, `content`, `action_url` and the overrides of channels. The texts are made for each user, in the language of the user. */
export type BroadcastTemplate = {
    /** The key of a template of the kind `message`. */
    key: string;
    /** What its texts read as `data`, up to 256 KiB of JSON. */
    data?: {
        [key: string]: unknown;
    } | null;
    /** The version that was the newest when the broadcast was accepted. */
    readonly version?: number;
    /** The versions of its layout and of all partials, by key. */
    readonly uses?: {
        [key: string]: number;
    };
};

export type CategoryChannel = {
    channel: Channel;
    /** Delay of this channel in seconds, at most 400 days. */
    delay?: number;
    /** A condition in CEL, checked after the delay. The notification is sent on this channel if it holds. It can use `user`, `notification` and `input` (the broadcast), also as Liquid outputs. */
    if?: string | null;
    /** Delivery windows of the category on this channel, instead of those of the project. */
    windows?: Array<DeliveryWindow>;
};

export type CategoryDeletedEvent = EventBase & {
    type: 'category.deleted';
    payload?: CategoryDeletedPayload;
};

export type CategoryDeletedMessage = {
    type: 'category.deleted';
    /** The time of the event. */
    timestamp: string;
    data: CategoryDeletedEvent;
};

export type CategoryDeletedPayload = {
    key: string;
};

export type CategoryDeliveryConfig = {
    /** The `category` of broadcasts. */
    key: string;
    /** The name of the category for users. They see the key if it is omitted. */
    label?: string;
    /** Says which messages the category has, for users. */
    description?: string;
    /** Translations of `label` and `description` by locale (BCP 47), such as `de` or `pt-BR`. */
    locales?: {
        [key: string]: CategoryTexts;
    };
    /** Sends nothing of this category. */
    disabled?: boolean;
    /** Users cannot switch it off, and e-mails have no unsubscribe link, as for login codes. Preferences, quiet hours and delivery windows do not apply. Suppressed addresses get nothing, except e-mail addresses suppressed as `unsubscribed`. */
    critical?: boolean;
    /** The category is sent only on these channels, each listed once. */
    channels: Array<CategoryChannel>;
};

export type CategoryDeliveryConfigList = {
    data: Array<CategoryDeliveryConfig>;
    links: PageLinks;
};

export type CategoryPreference = {
    /** The key of a category. `uncategorized` means notifications without one, unless the project configured a category with that key. */
    key: string;
    /** For people. `null` if the project has not saved one. */
    label: string | null;
    /** Which messages it has, for people. Left out if the project has not saved one. */
    description?: string;
    /** The category is critical and cannot be switched off. */
    required?: boolean;
    channels: Array<ChannelPreference>;
};

export type CategoryPreferenceInput = {
    /** The key of a category. `uncategorized` means notifications without one, unless the project configured a category with that key. */
    key: string;
    /** For people. `null` if the project has not saved one. */
    readonly label?: string | null;
    /** Which messages it has, for people. Left out if the project has not saved one. */
    readonly description?: string;
    /** The category is critical and cannot be switched off. */
    readonly required?: boolean;
    channels?: Array<ChannelPreferenceInput>;
};

export type CategorySavedEvent = EventBase & {
    type: 'category.saved';
    payload?: CategoryDeliveryConfig;
};

export type CategorySavedMessage = {
    type: 'category.saved';
    /** The time of the event. */
    timestamp: string;
    data: CategorySavedEvent;
};

export type CategorySubscription = {
    /** A category. `*` means every category that is not listed, and broadcasts without one. */
    slug: string;
    /** A reason of your own. */
    reason?: string;
    status: 'subscribed' | 'unsubscribed';
};

export type CategorySubscriptionInput = {
    /** A category. `*` means every category that is not listed, and broadcasts without one. */
    slug: string;
    /** A reason of your own. */
    reason?: string;
    status?: 'subscribed' | 'unsubscribed';
};

export type CategoryTexts = {
    /** The name of the category for users. They see the key if it is omitted. */
    label?: string;
    /** Says which messages the category has, for users. */
    description?: string;
};

export type Channel = 'in_app' | 'slack' | 'web_push' | 'mobile_push' | 'teams' | 'email' | 'sms';

export type ChannelDeliveryWindows = {
    channel: 'slack' | 'web_push' | 'mobile_push' | 'teams' | 'email' | 'sms';
    /** The hours in which messages are sent. Other messages are deferred until the next window opens. */
    windows: Array<DeliveryWindow>;
};

export type ChannelOverride = {
    title?: string;
    content?: string;
    action_url?: string | null;
};

/** Texts for single channels, instead of those of the broadcast. */
export type ChannelOverrides = {
    in_app?: ChannelOverride;
    mobile_push?: ChannelOverride;
    email?: ChannelOverride;
    sms?: ChannelOverride;
    web_push?: ChannelOverride;
    slack?: ChannelOverride;
    teams?: ChannelOverride;
};

export type ChannelPreference = {
    name: Channel;
    enabled: boolean;
};

export type ChannelPreferenceInput = {
    name: Channel;
    enabled: boolean;
};

export type ChatToken = {
    /** `<installation_id>-<channel_id>` for a token with `oauth`. */
    id: string;
    oauth?: ChatTokenOauth;
    webhook?: ChatTokenWebhook;
    created_at: string;
    updated_at: string | null;
    discarded_at: string | null;
};

export type ChatTokenInput = ({
    oauth: unknown;
} | {
    webhook: unknown;
}) & {
    oauth?: ChatTokenOauth;
    webhook?: ChatTokenWebhook;
};

export type ChatTokenList = {
    data: Array<ChatToken>;
    links: PageLinks;
};

export type ChatTokenOauth = {
    /** The channel or user to post to. */
    channel_id: string;
    /** The installation of the Slack app: `<app_id>-<team_id>`. */
    installation_id: string;
    /** The scopes of the installation. */
    scope?: string;
};

export type ChatTokenWebhook = {
    /** The URL of the incoming webhook, from Slack's response to the installation. */
    url: string;
};

export type ClickInput = {
    /** Where it was clicked; `in_app` if omitted. */
    channel?: 'in_app' | 'mobile_push' | 'web_push';
};

export type Delivery = {
    /** `<notification_id>.<channel>` */
    id: string;
    notification_id: string;
    broadcast_id: string;
    user_id: string;
    /** The user, or `null` if it was deleted. */
    user: UserName | null;
    channel: Channel;
    state: DeliveryState;
    /** The reason for its state as a word of Belfry or of the provider. `integration_paused`: it is due and waits for a paused integration. `rate_limited`: it waits for the rate limit of the integration or its provider. `outside_window`: it waits for the next window. `quiet_hours`: it waits for the end of the quiet hours. */
    code: string | null;
    /** The reason for its state, for people. */
    reason: string | null;
    /** The provider of the last attempt. For the inbox it is the `BRAND` of the server. */
    provider: string | null;
    integration_id: string | null;
    /** The id of the message at the provider; of several, the first accepted one. */
    provider_id: string | null;
    /** How many attempts were made. A replay starts at zero. */
    attempts: number;
    /** How often it was replayed. */
    replays: number;
    targets: DeliveryTargets | null;
    /** The time of the next attempt, while it is `scheduled` or `retrying`. A delivery window or a rate limit can defer it. */
    due_at: string | null;
    first_attempt_at: string | null;
    /** The time of the last attempt, or at which it reached its state. */
    last_attempt_at: string | null;
    /** What the provider reported afterwards. It does not change the state. */
    receipt: 'delivered' | 'bounced' | 'complained' | 'dropped' | null;
    receipt_at: string | null;
    /** When it was first opened, if the project tracks opens. */
    opened_at: string | null;
    /** How often it was opened. */
    opens: number;
    /** When it, or a link in it, was first clicked, if the project tracks clicks. */
    clicked_at: string | null;
    /** How often it was clicked. */
    clicks: number;
};

export type DeliveryBouncedEvent = EventBase & {
    type: 'delivery.bounced';
    context: DeliveryContext;
};

export type DeliveryBouncedMessage = {
    type: 'delivery.bounced';
    /** The time of the event. */
    timestamp: string;
    data: DeliveryBouncedEvent;
};

export type DeliveryClickedEvent = EventBase & {
    type: 'delivery.clicked';
    context: DeliveryContext;
    payload?: DeliveryClickedPayload;
};

export type DeliveryClickedMessage = {
    type: 'delivery.clicked';
    /** The time of the event. */
    timestamp: string;
    data: DeliveryClickedEvent;
};

export type DeliveryClickedPayload = {
    url: string;
};

export type DeliveryComplainedEvent = EventBase & {
    type: 'delivery.complained';
    context: DeliveryContext;
};

export type DeliveryComplainedMessage = {
    type: 'delivery.complained';
    /** The time of the event. */
    timestamp: string;
    data: DeliveryComplainedEvent;
};

export type DeliveryContext = {
    broadcast_id: string;
    user_id: string;
    notification_id: string;
    /** `<notification_id>.<channel>` */
    delivery_id: string;
    channel: Channel;
    /** The provider that was used or has reported it. */
    provider?: string;
    /** How many attempts there were. */
    attempt?: number;
    /** How long the attempt took. */
    duration_ms?: number;
    /** The reason as a word. */
    code?: string;
};

export type DeliveryDeliveredEvent = EventBase & {
    type: 'delivery.delivered';
    context: DeliveryContext;
};

export type DeliveryDeliveredMessage = {
    type: 'delivery.delivered';
    /** The time of the event. */
    timestamp: string;
    data: DeliveryDeliveredEvent;
};

export type DeliveryDroppedEvent = EventBase & {
    type: 'delivery.dropped';
    context: DeliveryContext;
};

export type DeliveryDroppedMessage = {
    type: 'delivery.dropped';
    /** The time of the event. */
    timestamp: string;
    data: DeliveryDroppedEvent;
};

export type DeliveryFailedEvent = EventBase & {
    type: 'delivery.failed';
    context: DeliveryContext;
    payload?: DeliveryTargetsPayload;
};

export type DeliveryFailedMessage = {
    type: 'delivery.failed';
    /** The time of the event. */
    timestamp: string;
    data: DeliveryFailedEvent;
};

export type DeliveryList = {
    data: Array<Delivery>;
    links: PageLinks;
};

export type DeliveryOpenedEvent = EventBase & {
    type: 'delivery.opened';
    context: DeliveryContext;
};

export type DeliveryOpenedMessage = {
    type: 'delivery.opened';
    /** The time of the event. */
    timestamp: string;
    data: DeliveryOpenedEvent;
};

export type DeliveryReplay = {
    /** How many deliveries are replayed. */
    replayed: number;
};

export type DeliveryReplayInput = {
    /** `failed` if omitted. `skipped` checks preferences and addresses again, and requires `user_ids`. */
    state?: 'failed' | 'skipped';
    /** Only deliveries on this channel. */
    channel?: Channel;
    /** Only deliveries to these users. */
    user_ids?: Array<string>;
};

export type DeliveryReplayedEvent = EventBase & {
    type: 'delivery.replayed';
    context: DeliveryContext;
};

export type DeliveryReplayedMessage = {
    type: 'delivery.replayed';
    /** The time of the event. */
    timestamp: string;
    data: DeliveryReplayedEvent;
};

export type DeliveryRetriedEvent = EventBase & {
    type: 'delivery.retried';
    context: DeliveryContext;
    payload?: DeliveryTargetsPayload;
};

export type DeliveryRetriedMessage = {
    type: 'delivery.retried';
    /** The time of the event. */
    timestamp: string;
    data: DeliveryRetriedEvent;
};

export type DeliveryScheduledEvent = EventBase & {
    type: 'delivery.scheduled';
    context: DeliveryContext;
    payload?: DeliveryScheduledPayload;
};

export type DeliveryScheduledMessage = {
    type: 'delivery.scheduled';
    /** The time of the event. */
    timestamp: string;
    data: DeliveryScheduledEvent;
};

export type DeliveryScheduledPayload = {
    due_at: string;
};

export type DeliverySentEvent = EventBase & {
    type: 'delivery.sent';
    context: DeliveryContext;
    payload?: DeliveryTargetsPayload;
};

export type DeliverySentMessage = {
    type: 'delivery.sent';
    /** The time of the event. */
    timestamp: string;
    data: DeliverySentEvent;
};

export type DeliverySkippedEvent = EventBase & {
    type: 'delivery.skipped';
    context: DeliveryContext;
    payload?: DeliveryTargetsPayload;
};

export type DeliverySkippedMessage = {
    type: 'delivery.skipped';
    /** The time of the event. */
    timestamp: string;
    data: DeliverySkippedEvent;
};

/** `scheduled`: waits for its first attempt. `retrying`: an attempt failed and will be retried, or the delivery is replayed. Final states are `sent` (a provider accepted it, or the inbox shows it), `failed` and `skipped` (not sent on this channel). */
export type DeliveryState = 'scheduled' | 'retrying' | 'sent' | 'failed' | 'skipped';

/** The results for the devices, browsers or chats of the user, if there are several. */
export type DeliveryTargets = {
    /** Targets for which a provider accepted the message. */
    accepted: number;
    /** Targets that no longer exist. */
    gone: number;
    /** Targets that failed. */
    failed: number;
    /** The ids of the accepted messages at the providers, as far as they have one. */
    provider_ids: Array<string>;
};

export type DeliveryTargetsPayload = {
    /** Targets for which a provider accepted the message. */
    accepted: number;
    /** Targets that no longer exist. */
    gone: number;
    /** Targets that failed. */
    failed: number;
};

export type DeliveryWindow = {
    /** The days on which the window begins. Every day if omitted. */
    days?: Array<'monday' | 'tuesday' | 'wednesday' | 'thursday' | 'friday' | 'saturday' | 'sunday'>;
    /** The time at which it begins, in the time zone of the user. */
    from: string;
    /** The time at which it ends, at least ten minutes after `from`. On the next day if it is not later than `from`. */
    to: string;
};

export type DeliveryWindows = {
    /** The time zone of users without one of their own. An IANA name; `UTC` if omitted. */
    time_zone?: string;
    /** Each channel once. On other channels messages are sent at any time. */
    channels: Array<ChannelDeliveryWindows>;
};

export type DeliveryWindowsSavedEvent = EventBase & {
    type: 'delivery_windows.saved';
    payload?: DeliveryWindows;
};

export type DeliveryWindowsSavedMessage = {
    type: 'delivery_windows.saved';
    /** The time of the event. */
    timestamp: string;
    data: DeliveryWindowsSavedEvent;
};

export type DiscardedToken = {
    id: string;
    discarded_at: string;
};

export type Empty = {
    [key: string]: never;
};

export type ErrorDetail = {
    /** The kind of problem, for programs. */
    code?: string;
    /** The problem in words, with the name of the field. */
    message: string;
    /** How to correct it. */
    suggestion?: string;
    /** Where to read more. */
    help_link?: string;
};

export type Errors = {
    /** All problems of the request. */
    errors: Array<ErrorDetail>;
};

export type Event = BroadcastCreatedEvent | BroadcastProcessedEvent | BroadcastCancelledEvent | NotificationCreatedEvent | NotificationSeenEvent | NotificationReadEvent | NotificationUnreadEvent | NotificationArchivedEvent | NotificationUnarchivedEvent | NotificationDeletedEvent | NotificationSnoozedEvent | NotificationUnsnoozedEvent | DeliveryScheduledEvent | DeliverySentEvent | DeliveryDeliveredEvent | DeliveryBouncedEvent | DeliveryComplainedEvent | DeliveryFailedEvent | DeliveryRetriedEvent | DeliveryReplayedEvent | DeliverySkippedEvent | DeliveryOpenedEvent | DeliveryClickedEvent | DeliveryDroppedEvent | TokenSavedEvent | TokenDiscardedEvent | UserCreatedEvent | UserUpdatedEvent | UserDeletedEvent | UserRestoredEvent | TemplateSavedEvent | TemplateDeletedEvent | WorkflowSavedEvent | WorkflowDeletedEvent | WorkflowRunStartedEvent | WorkflowRunStepEvent | WorkflowRunResumedEvent | WorkflowRunRerunEvent | WorkflowRunCompletedEvent | WorkflowRunFailedEvent | WorkflowRunAbortedEvent | WorkflowRunPreventedEvent | IntegrationSavedEvent | IntegrationDeletedEvent | IntegrationPausedEvent | IntegrationResumedEvent | IntegrationReceivedEvent | InstallationSavedEvent | InstallationBrokenEvent | PreferencesUpdatedEvent | SubscriptionSavedEvent | SubscriptionDeletedEvent | SuppressionAddedEvent | SuppressionUpdatedEvent | SuppressionLiftedEvent | CategorySavedEvent | CategoryDeletedEvent | DeliveryWindowsSavedEvent | ProjectSavedEvent | TrackingSavedEvent | WebhookSavedEvent | WebhookDeletedEvent | WebhookDisabledEvent;

/** What the events of all types have. */
export type EventBase = {
    id: string;
    type: EventType;
    timestamp: string;
    /** The HTTP or SMTP status with which the other side responded. */
    code?: number;
    /** How serious it is. */
    level?: 'info' | 'warn' | 'error';
    /** What happened, for people. */
    log?: string;
    /** The subject: `user_id`, `broadcast_id`, `notification_id`, `channel`, `provider` and others. A delivery also has `delivery_id`, `attempt` and `duration_ms`. `code` is the reason as a word. */
    context?: {
        [key: string]: unknown;
    };
    /** The user of `context.user_id`. Missing if there is none, or if it was deleted. */
    user?: UserName;
    /** Details that depend on the type. Missing if there are none, or if they were erased with a user. */
    payload?: {
        [key: string]: unknown;
    };
};

export type EventFilter = 'broadcast.created' | 'broadcast.processed' | 'broadcast.cancelled' | 'notification.created' | 'notification.seen' | 'notification.read' | 'notification.unread' | 'notification.archived' | 'notification.unarchived' | 'notification.deleted' | 'notification.snoozed' | 'notification.unsnoozed' | 'delivery.scheduled' | 'delivery.sent' | 'delivery.delivered' | 'delivery.bounced' | 'delivery.complained' | 'delivery.failed' | 'delivery.retried' | 'delivery.replayed' | 'delivery.skipped' | 'delivery.opened' | 'delivery.clicked' | 'delivery.dropped' | 'token.saved' | 'token.discarded' | 'user.created' | 'user.updated' | 'user.deleted' | 'user.restored' | 'template.saved' | 'template.deleted' | 'workflow.saved' | 'workflow.deleted' | 'workflow.run.started' | 'workflow.run.step' | 'workflow.run.resumed' | 'workflow.run.rerun' | 'workflow.run.completed' | 'workflow.run.failed' | 'workflow.run.aborted' | 'workflow.run.prevented' | 'integration.saved' | 'integration.deleted' | 'integration.paused' | 'integration.resumed' | 'integration.received' | 'installation.saved' | 'installation.broken' | 'preferences.updated' | 'subscription.saved' | 'subscription.deleted' | 'suppression.added' | 'suppression.updated' | 'suppression.lifted' | 'category.saved' | 'category.deleted' | 'delivery_windows.saved' | 'project.saved' | 'tracking.saved' | 'webhook.saved' | 'webhook.deleted' | 'webhook.disabled' | 'broadcast.*' | 'notification.*' | 'delivery.*' | 'token.*' | 'user.*' | 'template.*' | 'workflow.*' | 'workflow.run.*' | 'integration.*' | 'installation.*' | 'preferences.*' | 'subscription.*' | 'suppression.*' | 'category.*' | 'delivery_windows.*' | 'project.*' | 'tracking.*' | 'webhook.*';

export type EventList = {
    data: Array<Event>;
    links: PageLinks;
};

export type EventType = 'broadcast.created' | 'broadcast.processed' | 'broadcast.cancelled' | 'notification.created' | 'notification.seen' | 'notification.read' | 'notification.unread' | 'notification.archived' | 'notification.unarchived' | 'notification.deleted' | 'notification.snoozed' | 'notification.unsnoozed' | 'delivery.scheduled' | 'delivery.sent' | 'delivery.delivered' | 'delivery.bounced' | 'delivery.complained' | 'delivery.failed' | 'delivery.retried' | 'delivery.replayed' | 'delivery.skipped' | 'delivery.opened' | 'delivery.clicked' | 'delivery.dropped' | 'token.saved' | 'token.discarded' | 'user.created' | 'user.updated' | 'user.deleted' | 'user.restored' | 'template.saved' | 'template.deleted' | 'workflow.saved' | 'workflow.deleted' | 'workflow.run.started' | 'workflow.run.step' | 'workflow.run.resumed' | 'workflow.run.rerun' | 'workflow.run.completed' | 'workflow.run.failed' | 'workflow.run.aborted' | 'workflow.run.prevented' | 'integration.saved' | 'integration.deleted' | 'integration.paused' | 'integration.resumed' | 'integration.received' | 'installation.saved' | 'installation.broken' | 'preferences.updated' | 'subscription.saved' | 'subscription.deleted' | 'suppression.added' | 'suppression.updated' | 'suppression.lifted' | 'category.saved' | 'category.deleted' | 'delivery_windows.saved' | 'project.saved' | 'tracking.saved' | 'webhook.saved' | 'webhook.deleted' | 'webhook.disabled';

export type EventsourceIntegration = {
    name: 'eventsource';
    id: string;
    config: EventsourceIntegrationConfig | null;
    error?: UnreadableConfig;
};

export type EventsourceIntegrationConfig = {
    /** Your name for the source of the events */
    source: string;
    /** The key that signs the events according to Standard Webhooks: 24 bytes or more in base64, with or without the prefix whsec_. Without it no events are accepted */
    webhook_signing_secret?: string;
};

export type EventsourceIntegrationList = {
    data: Array<EventsourceIntegration>;
    links: PageLinks;
};

export type ExpoIntegration = {
    name: 'expo';
    id: string;
    config: ExpoIntegrationConfig | null;
    error?: UnreadableConfig;
    state?: IntegrationState;
};

export type ExpoIntegrationConfig = {
    /** An access token of the Expo account that owns the app */
    access_token: string;
};

export type ExpoIntegrationList = {
    data: Array<ExpoIntegration>;
    links: PageLinks;
};

export type ExpoToken = {
    id: string;
    /** The device's Expo push token. */
    device_token: string;
    created_at: string;
    updated_at: string | null;
    discarded_at: string | null;
};

export type ExpoTokenInput = {
    /** The device's Expo push token. */
    device_token: string;
};

export type ExpoTokenList = {
    data: Array<ExpoToken>;
    links: PageLinks;
};

export type ExportedWorkflowRun = {
    id: string;
    workflow_key: string;
    /** The version of the workflow that the run executes. */
    version: number;
    /** The user of the run. */
    user_id?: string;
    status: WorkflowRunStatus;
    created_at: string;
    input: {
        [key: string]: unknown;
    };
    /** The steps that have begun, in their order. */
    steps: Array<WorkflowRunStep>;
    /** Of a run that waits for its digest: the inputs so far. */
    collected?: Array<{
        [key: string]: unknown;
    }>;
};

/** Its identities, as they were sent. */
export type FailedUser = {
    external_id?: string;
    email?: string;
};

export type FcmIntegration = {
    name: 'fcm';
    id: string;
    config: FcmIntegrationConfig | null;
    error?: UnreadableConfig;
    state?: IntegrationState;
};

/** The complete JSON key file of a service account, from the Firebase console. */
export type FcmIntegrationConfig = {
    /** The kind of credentials: service_account */
    type: 'service_account';
    /** The Firebase project */
    project_id: string;
    /** The id of the private key */
    private_key_id: string;
    /** The private key in PEM, with its line breaks */
    private_key: string;
    /** The e-mail address of the service account */
    client_email: string;
    /** The id of the service account */
    client_id: string;
    /** Google's authorization endpoint */
    auth_uri: string;
    /** Google's endpoint for access tokens: https://oauth2.googleapis.com/token */
    token_uri: string;
    /** The URL of Google's certificates */
    auth_provider_x509_cert_url: string;
    /** The URL of the service account's certificates */
    client_x509_cert_url: string;
    /** googleapis.com, except in partner and sovereign clouds */
    universe_domain: string;
};

export type FcmIntegrationList = {
    data: Array<FcmIntegration>;
    links: PageLinks;
};

export type FcmToken = {
    id: string;
    /** The app's FCM registration token. */
    device_token: string;
    created_at: string;
    updated_at: string | null;
    discarded_at: string | null;
};

export type FcmTokenInput = {
    /** The app's FCM registration token. */
    device_token: string;
};

export type FcmTokenList = {
    data: Array<FcmToken>;
    links: PageLinks;
};

export type GithubIntegration = {
    name: 'github';
    id: string;
    config: GithubIntegrationConfig | null;
    error?: UnreadableConfig;
};

export type GithubIntegrationConfig = {
    /** The secret of the webhook in GitHub. It verifies GitHub's requests */
    webhook_signing_secret: string;
};

export type GithubIntegrationList = {
    data: Array<GithubIntegration>;
    links: PageLinks;
};

export type InboxImages = {
    /** URL of the picture in an empty inbox */
    emptyInboxUrl: string;
};

export type InboxIntegration = {
    name: 'inbox';
    id: string;
    config: InboxIntegrationConfig | null;
    error?: UnreadableConfig;
    state?: IntegrationState;
};

export type InboxIntegrationConfig = {
    images: InboxImages | null;
    locale: string | null;
    theme: InboxTheme | null;
};

export type InboxIntegrationConfigInput = {
    images?: InboxImages | null;
    locale?: string | null;
    theme?: InboxTheme | null;
};

export type InboxIntegrationList = {
    data: Array<InboxIntegration>;
    links: PageLinks;
};

export type InboxTheme = {
    notification?: InboxThemeNotification;
    banner?: InboxThemeBanner;
    dialog?: InboxThemeDialog;
    footer?: InboxThemeFooter;
    header?: InboxThemeHeader;
    icon?: InboxThemeIcon;
    unseenBadge?: InboxThemeUnseenBadge;
};

export type InboxThemeBanner = {
    /** Background, a CSS value */
    backgroundColor: string;
    /** Opacity of the background, 0 to 1 */
    backgroundOpacity?: number;
    /** Text size, a CSS value */
    fontSize: string;
    /** Text colour, a CSS value */
    textColor: string;
};

export type InboxThemeDialog = {
    /** Colour of switches, a CSS value */
    accentColor: string;
    /** Background, a CSS value */
    backgroundColor: string;
    /** Text colour, a CSS value */
    textColor: string;
};

export type InboxThemeFooter = {
    /** Background, a CSS value */
    backgroundColor: string;
    /** Corner radius, a CSS value */
    borderRadius: string;
    /** Text size, a CSS value */
    fontSize: string;
    /** Text colour, a CSS value */
    textColor: string;
};

export type InboxThemeHeader = {
    /** Background, a CSS value */
    backgroundColor: string;
    /** Corner radius, a CSS value */
    borderRadius: string;
    /** Typeface, a CSS value */
    fontFamily: string;
    /** Text size, a CSS value */
    fontSize: string;
    /** Text colour, a CSS value */
    textColor: string;
};

export type InboxThemeHover = {
    /** Background under the pointer, a CSS value */
    backgroundColor: string;
};

export type InboxThemeIcon = {
    /** Outline, a CSS value */
    borderColor: string;
    /** Width, a CSS value */
    width: string;
};

export type InboxThemeNotification = {
    default: InboxThemeNotificationDefault;
    hover?: InboxThemeHover;
    state?: InboxThemeState;
    unseen: InboxThemeNotificationState;
    unread: InboxThemeNotificationState;
};

export type InboxThemeNotificationDefault = {
    /** Space around a notification, a CSS value */
    margin: string;
    /** Typeface, a CSS value */
    fontFamily: string;
    /** Text size, a CSS value */
    fontSize: string;
    /** Text colour, a CSS value */
    textColor: string;
    /** Corner radius, a CSS value */
    borderRadius: string;
    /** Background, a CSS value */
    backgroundColor: string;
    hover?: InboxThemeHover;
    state?: InboxThemeState;
};

export type InboxThemeNotificationState = {
    /** Text colour, a CSS value */
    textColor: string;
    /** Background, a CSS value */
    backgroundColor: string;
    hover?: InboxThemeHover;
    state?: InboxThemeState;
};

export type InboxThemeState = {
    /** Colour of the dot that marks the state, a CSS value */
    color: string;
};

export type InboxThemeUnseenBadge = {
    /** Background, a CSS value */
    backgroundColor: string;
};

export type InboxToken = {
    id: string;
    /** A random text that you generate. It is a secret: it authenticates the realtime connection. */
    token: string;
    connection_id: string | null;
    created_at: string;
    updated_at: string | null;
    discarded_at: string | null;
};

export type InboxTokenInput = {
    /** A random text that you generate. It is a secret: it authenticates the realtime connection. */
    token: string;
    /** Restricts delivery to this one realtime connection. */
    connection_id?: string | null;
};

export type InboxTokenList = {
    data: Array<InboxToken>;
    links: PageLinks;
};

export type InstallationBrokenEvent = EventBase & {
    type: 'installation.broken';
    payload?: ProviderPayload;
};

export type InstallationBrokenMessage = {
    type: 'installation.broken';
    /** The time of the event. */
    timestamp: string;
    data: InstallationBrokenEvent;
};

export type InstallationFinishInput = {
    /** The id of the Slack app: that of the integration or of the server. */
    app_id: string;
    /** The `code` of the query with which Slack sent the user back. */
    code: string;
    /** The address to which Slack sends the user back. The Slack app must list it. */
    redirect_url?: string;
    /** The `state` of the same query. It must belong to an installation that this user started within the last hour, so that another person cannot connect a foreign workspace. */
    state?: string;
};

export type InstallationSavedEvent = EventBase & {
    type: 'installation.saved';
    payload?: ProviderPayload;
};

export type InstallationSavedMessage = {
    type: 'installation.saved';
    /** The time of the event. */
    timestamp: string;
    data: InstallationSavedEvent;
};

export type InstallationStart = {
    app_id: string;
    /** The address to which your app sends the user. Its `state` comes back with the `code`. */
    auth_url: string;
    scopes: Array<string>;
};

export type InstallationStartInput = {
    /** The id of the Slack app: that of the integration or of the server. */
    app_id: string;
    /** Returned instead of the address of Slack, with the same query. */
    auth_url?: string;
    /** Scopes that the app needs besides posting. */
    extra_scopes?: Array<string>;
    /** The address to which Slack sends the user back. The Slack app must list it. */
    redirect_url?: string;
};

export type Integration = ApnsIntegration | EventsourceIntegration | ExpoIntegration | FcmIntegration | GithubIntegration | InboxIntegration | MailgunIntegration | PingEmailIntegration | SendgridIntegration | SesIntegration | SlackIntegration | SlackbotIntegration | SmtpIntegration | StripeIntegration | TeamsIntegration | TwilioIntegration | WebPushIntegration;

export type IntegrationContext = {
    /** The name of the provider. */
    provider: string;
};

export type IntegrationDeletedEvent = EventBase & {
    type: 'integration.deleted';
    context: IntegrationContext;
    payload?: ProviderPayload;
};

export type IntegrationDeletedMessage = {
    type: 'integration.deleted';
    /** The time of the event. */
    timestamp: string;
    data: IntegrationDeletedEvent;
};

export type IntegrationList = {
    data: Array<Integration>;
    links: PageLinks;
};

export type IntegrationPausedEvent = EventBase & {
    type: 'integration.paused';
    context: IntegrationContext;
    payload?: IntegrationStatePayload;
};

export type IntegrationPausedMessage = {
    type: 'integration.paused';
    /** The time of the event. */
    timestamp: string;
    data: IntegrationPausedEvent;
};

export type IntegrationReceivedEvent = EventBase & {
    type: 'integration.received';
    context: IntegrationContext;
};

export type IntegrationReceivedMessage = {
    type: 'integration.received';
    /** The time of the event. */
    timestamp: string;
    data: IntegrationReceivedEvent;
};

export type IntegrationResumedEvent = EventBase & {
    type: 'integration.resumed';
    context: IntegrationContext;
    payload?: IntegrationStatePayload;
};

export type IntegrationResumedMessage = {
    type: 'integration.resumed';
    /** The time of the event. */
    timestamp: string;
    data: IntegrationResumedEvent;
};

export type IntegrationSavedEvent = EventBase & {
    type: 'integration.saved';
    context: IntegrationContext;
    payload?: ProviderPayload;
};

export type IntegrationSavedMessage = {
    type: 'integration.saved';
    /** The time of the event. */
    timestamp: string;
    data: IntegrationSavedEvent;
};

/** Only while it is paused, because its provider rejects the config or repeatedly did not respond. Its messages wait, or use the next integration of the channel. */
export type IntegrationState = {
    status: 'paused';
    /** When it was paused. */
    since: string;
    /** From then on, one message at a time tests whether it works again. Saving the integration ends the pause at once. */
    until: string;
    /** The error that paused it, as a word of Belfry or of the provider. */
    code?: string;
    /** The error that paused it, for people. */
    reason: string;
    /** The only host or workspace that is affected. Messages to others are sent. */
    party?: string;
};

export type IntegrationStatePayload = {
    id: string;
    /** The name of the provider. */
    name: string;
    /** The only host or workspace that is affected. */
    party?: string;
};

export type Mailbox = {
    /** E-mail address */
    email: string;
    /** Name shown beside the address */
    name?: string | null;
};

export type MailgunIntegration = {
    name: 'mailgun';
    id: string;
    config: MailgunIntegrationConfig | null;
    error?: UnreadableConfig;
    state?: IntegrationState;
};

export type MailgunIntegrationConfig = {
    /** An API key of the account, or the domain's own sending key */
    api_key: string;
    /** The domain to send from, as Mailgun lists it */
    domain: string;
    /** Where the domain is hosted */
    region: 'us' | 'eu';
    /** Sender of every e-mail, at the domain */
    from?: Mailbox;
    /** The HTTP webhook signing key, not the API key. It verifies bounces and complaints */
    webhook_signing_key?: string;
    /** Maximum number of messages per second that all nodes send together, spread evenly; 0.5 is one every two seconds. If not given, only the limits of the provider apply */
    max_per_second?: number;
};

export type MailgunIntegrationList = {
    data: Array<MailgunIntegration>;
    links: PageLinks;
};

export type Notification = {
    id: string;
    user_id: string;
    /** `unread` means seen but not read. An archived notification is `archived`, and a snoozed one `snoozed`, read or not. */
    status: 'unseen' | 'unread' | 'read' | 'archived' | 'snoozed';
    title: string;
    content: string | null;
    action_url: string | null;
    category: string | null;
    topic: string | null;
    custom_attributes: {
        [key: string]: unknown;
    } | null;
    created_at: string;
    updated_at: string;
    sent_at: string | null;
    seen_at: string | null;
    read_at: string | null;
    archived_at: string | null;
    discarded_at: string | null;
    /** When it returns to the inbox. */
    snoozed_until: string | null;
};

export type NotificationArchivedEvent = EventBase & {
    type: 'notification.archived';
    context: NotificationContext;
    payload?: NotificationsPayload;
};

export type NotificationArchivedMessage = {
    type: 'notification.archived';
    /** The time of the event. */
    timestamp: string;
    data: NotificationArchivedEvent;
};

export type NotificationContext = {
    user_id: string;
    broadcast_id?: string;
    /** Missing if all notifications changed at once. */
    notification_id?: string;
};

export type NotificationCreatedEvent = EventBase & {
    type: 'notification.created';
    context: NotificationContext;
};

export type NotificationCreatedMessage = {
    type: 'notification.created';
    /** The time of the event. */
    timestamp: string;
    data: NotificationCreatedEvent;
};

export type NotificationDeletedEvent = EventBase & {
    type: 'notification.deleted';
    context: NotificationContext;
};

export type NotificationDeletedMessage = {
    type: 'notification.deleted';
    /** The time of the event. */
    timestamp: string;
    data: NotificationDeletedEvent;
};

export type NotificationList = {
    data: Array<Notification>;
    links: PageLinks;
};

export type NotificationReadEvent = EventBase & {
    type: 'notification.read';
    context: NotificationContext;
    payload?: NotificationsPayload;
};

export type NotificationReadMessage = {
    type: 'notification.read';
    /** The time of the event. */
    timestamp: string;
    data: NotificationReadEvent;
};

export type NotificationSeenEvent = EventBase & {
    type: 'notification.seen';
    context: NotificationContext;
    payload?: NotificationsPayload;
};

export type NotificationSeenMessage = {
    type: 'notification.seen';
    /** The time of the event. */
    timestamp: string;
    data: NotificationSeenEvent;
};

export type NotificationSnoozedEvent = EventBase & {
    type: 'notification.snoozed';
    context: NotificationContext;
};

export type NotificationSnoozedMessage = {
    type: 'notification.snoozed';
    /** The time of the event. */
    timestamp: string;
    data: NotificationSnoozedEvent;
};

export type NotificationUnarchivedEvent = EventBase & {
    type: 'notification.unarchived';
    context: NotificationContext;
};

export type NotificationUnarchivedMessage = {
    type: 'notification.unarchived';
    /** The time of the event. */
    timestamp: string;
    data: NotificationUnarchivedEvent;
};

export type NotificationUnreadEvent = EventBase & {
    type: 'notification.unread';
    context: NotificationContext;
};

export type NotificationUnreadMessage = {
    type: 'notification.unread';
    /** The time of the event. */
    timestamp: string;
    data: NotificationUnreadEvent;
};

export type NotificationUnsnoozedEvent = EventBase & {
    type: 'notification.unsnoozed';
    context: NotificationContext;
};

export type NotificationUnsnoozedMessage = {
    type: 'notification.unsnoozed';
    /** The time of the event. */
    timestamp: string;
    data: NotificationUnsnoozedEvent;
};

/** Only when a user changed all notifications at once, or all of a category or topic. */
export type NotificationsPayload = {
    category?: string;
    topic?: string;
    /** How many notifications changed. */
    count: number;
};

export type PageLinks = {
    /** The address of the first page. */
    first: string;
    /** The address of the next page; `null` on the last page. */
    next: string | null;
    /** The address of the previous page; `null` on the first page. */
    prev: string | null;
};

export type PingEmailIntegration = {
    name: 'ping_email';
    id: string;
    config: PingEmailIntegrationConfig | null;
    error?: UnreadableConfig;
    state?: IntegrationState;
};

export type PingEmailIntegrationConfig = {
    /** The URL of your mailer. It receives each notification as a POST request */
    url: string;
    /** Maximum number of messages per second that all nodes send together, spread evenly; 0.5 is one every two seconds. If not given, only the limits of the provider apply */
    max_per_second?: number;
};

export type PingEmailIntegrationList = {
    data: Array<PingEmailIntegration>;
    links: PageLinks;
};

export type PostedWorkflowEvent = {
    /** How many runs waited for the event. If more than 2,000 have a matching name and user, the others are continued soon after, and counted before their conditions are evaluated. */
    continued: number;
    /** How many runs it started. */
    started: number;
};

export type PreferenceChange = {
    category: string | null;
    channel: Channel;
    enabled: boolean;
};

export type PreferencesPayload = {
    /** A `category` of `null` means notifications without a category. */
    changes: Array<PreferenceChange>;
    /** The new time zone, if it changed. */
    time_zone?: string | null;
    /** The new quiet hours, if they changed. */
    quiet_hours?: QuietHours | null;
};

export type PreferencesUpdatedEvent = EventBase & {
    type: 'preferences.updated';
    payload?: PreferencesPayload;
};

export type PreferencesUpdatedMessage = {
    type: 'preferences.updated';
    /** The time of the event. */
    timestamp: string;
    data: PreferencesUpdatedEvent;
};

export type Project = {
    /** The id of the project. */
    id: string;
    name: string;
    /** The public key, which identifies the project. */
    api_key: string;
    /** The name that users see in e-mails, and on the pages for preferences and to unsubscribe. `null`: the `name` of the project, unless that is `default`. */
    display_name: string | null;
    /** The logo in e-mails, and on the pages for preferences and to unsubscribe. It is shown 40 pixels high. */
    logo_url: string | null;
    /** The language of the fixed texts for users whose own is unknown or not available, as a BCP 47 tag. */
    default_locale: string | null;
    /** Whether users of the v1 API must prove who they are by an HMAC. Without it, everyone who knows the public API key and guesses an external id can read the inbox of that user. */
    hmac_required: boolean;
};

/** Members in the body replace stored values, missing members stay, and `null` clears. */
export type ProjectInput = {
    /** The name that users see in e-mails, and on the pages for preferences and to unsubscribe. `null`: the `name` of the project, unless that is `default`. */
    display_name?: string | null;
    /** The logo in e-mails, and on the pages for preferences and to unsubscribe. It is shown 40 pixels high. */
    logo_url?: string | null;
    /** The language of the fixed texts for users whose own is unknown or not available, as a BCP 47 tag. */
    default_locale?: string | null;
    /** Whether users of the v1 API must prove who they are by an HMAC. Without it, everyone who knows the public API key and guesses an external id can read the inbox of that user. */
    hmac_required?: boolean;
};

export type ProjectSavedEvent = EventBase & {
    type: 'project.saved';
    payload?: ProjectSettings;
};

export type ProjectSavedMessage = {
    type: 'project.saved';
    /** The time of the event. */
    timestamp: string;
    data: ProjectSavedEvent;
};

export type ProjectSettings = {
    /** The name that users see in e-mails, and on the pages for preferences and to unsubscribe. `null`: the `name` of the project, unless that is `default`. */
    display_name: string | null;
    /** The logo in e-mails, and on the pages for preferences and to unsubscribe. It is shown 40 pixels high. */
    logo_url: string | null;
    /** The language of the fixed texts for users whose own is unknown or not available, as a BCP 47 tag. */
    default_locale: string | null;
    /** Whether users of the v1 API must prove who they are by an HMAC. Without it, everyone who knows the public API key and guesses an external id can read the inbox of that user. */
    hmac_required: boolean;
};

export type ProviderOverrides = {
    /** Merged into the request to this provider. */
    apns?: {
        [key: string]: unknown;
    };
    /** Merged into the request to this provider. */
    expo?: {
        [key: string]: unknown;
    };
    /** Merged into the request to this provider. */
    fcm?: {
        [key: string]: unknown;
    };
    /** Merged into the request to this provider. */
    mailgun?: {
        [key: string]: unknown;
    };
    /** Merged into the request to this provider. */
    sendgrid?: {
        [key: string]: unknown;
    };
    /** Merged into the request to this provider. */
    ses?: {
        [key: string]: unknown;
    };
    /** Merged into the request to this provider. */
    slack?: {
        [key: string]: unknown;
    };
    /** Merged into the request to this provider. */
    teams?: {
        [key: string]: unknown;
    };
    /** Merged into the request to this provider. */
    twilio?: {
        [key: string]: unknown;
    };
    /** Merged into the request to this provider. */
    web_push?: {
        [key: string]: unknown;
    };
};

export type ProviderPayload = {
    id?: string;
    /** The name of the provider. */
    name: string;
};

/** Text messages, push and chat messages wait until they end, unless their category is critical. The inbox and e-mails do not. */
export type QuietHours = {
    /** The days on which they begin. Every day if omitted. */
    days?: Array<'monday' | 'tuesday' | 'wednesday' | 'thursday' | 'friday' | 'saturday' | 'sunday'>;
    /** The local time at which they begin. */
    from: string;
    /** The local time at which they end, at least ten minutes after `from`. On the next day if it is not later than `from`. */
    to: string;
};

export type ReceiptReply = {
    /** The value that the provider expects in the response. */
    challenge?: string;
};

export type Recipient = UserRecipient | TopicRecipients;

export type SavedApnsToken = {
    /** The device token in hexadecimal, as iOS returns it to the app. */
    device_token: string;
    /** The app's bundle identifier, if it differs from the integration's. */
    app_id?: string;
    /** The environment of the token: `production` if not given. */
    installation_id?: 'development' | 'production';
};

export type SavedChatToken = {
    oauth?: ChatTokenOauth;
    webhook?: ChatTokenWebhook;
};

export type SavedExpoToken = {
    /** The device's Expo push token. */
    device_token: string;
};

export type SavedFcmToken = {
    /** The app's FCM registration token. */
    device_token: string;
};

export type SavedInboxToken = {
    /** A random text that you generate. It is a secret: it authenticates the realtime connection. */
    token: string;
    connection_id: string | null;
};

export type SavedTeamsToken = {
    webhook?: TeamsTokenWebhook;
};

export type SavedWebPushToken = {
    /** The endpoint URL of the subscription, as the browser returns it. */
    endpoint: string;
    keys: WebPushKeys;
};

export type SendgridIntegration = {
    name: 'sendgrid';
    id: string;
    config: SendgridIntegrationConfig | null;
    error?: UnreadableConfig;
    state?: IntegrationState;
};

export type SendgridIntegrationConfig = {
    /** An API key with the permission Mail Send */
    api_key: string;
    /** Sender of every e-mail, one that SendGrid has verified */
    from?: Mailbox;
    /** Reply-To mailbox, if replies do not go to the sender */
    reply_to?: Mailbox;
    /** Region of the account: eu for EU subusers. Default: global */
    region?: 'global' | 'eu';
    /** The verification key of the signed event webhook, in base64. It verifies bounces and complaints */
    webhook_public_key?: string;
    /** Maximum number of messages per second that all nodes send together, spread evenly; 0.5 is one every two seconds. If not given, only the limits of the provider apply */
    max_per_second?: number;
};

export type SendgridIntegrationList = {
    data: Array<SendgridIntegration>;
    links: PageLinks;
};

export type SentRecipient = UserRecipient | TopicRecipients | AllUsers;

export type SentTemplate = {
    key: string;
    /** What its texts read as `data`, up to 256 KiB of JSON. */
    data: {
        [key: string]: unknown;
    } | null;
    /** The version that was the newest when the broadcast was accepted. */
    version: number;
    /** The versions of its layout and of all partials, by key. */
    uses: {
        [key: string]: number;
    };
};

export type SesIntegration = {
    name: 'ses';
    id: string;
    config: SesIntegrationConfig | null;
    error?: UnreadableConfig;
    state?: IntegrationState;
};

export type SesIntegrationConfig = {
    /** The access key id of an IAM user with permission to send e-mail */
    key_id: string;
    /** The secret access key of the access key id */
    secret_key: string;
    /** The region of the verified identity, such as eu-west-1 */
    region: string;
    /** Sender of every e-mail, an identity verified in SES */
    from?: Mailbox;
    /** The configuration set that every e-mail is sent with */
    configuration_set?: string;
    /** The SNS topic of the configuration set. Bounces and complaints are accepted from this topic only */
    topic_arn?: string;
    /** Maximum number of messages per second that all nodes send together, spread evenly; 0.5 is one every two seconds. If not given, only the limits of the provider apply */
    max_per_second?: number;
};

export type SesIntegrationList = {
    data: Array<SesIntegration>;
    links: PageLinks;
};

export type SlackInstallation = {
    /** `<app_id>-<team_id>`, or `<app_id>-<enterprise_id>` for a whole organisation. Belfry fills it in if omitted. */
    id?: string;
    /** The token of the bot. */
    access_token: string;
    /** The id of the Slack app: that of the integration or of the server. */
    app_id: string;
    authed_user: SlackInstallationUser;
    /** The Slack user as which the app posts. */
    bot_user_id?: string;
    enterprise?: SlackInstallationEnterprise;
    /** Seconds until the token of the bot expires. */
    expires_in?: number;
    incoming_webhook?: SlackInstallationWebhook;
    /** Whether the app is installed in a whole organisation. */
    is_enterprise_install?: boolean;
    /** Renews the token of the bot, once. */
    refresh_token?: string;
    /** The scopes of the token of the bot. */
    scope?: string;
    team: SlackInstallationTeam;
    /** The kind of the token. */
    token_type?: string;
    /** The same as `team.id`. */
    team_id?: string | null;
    /** The same as `team.name`. */
    team_name?: string | null;
    /** The same as `enterprise.id`. */
    enterprise_id?: string | null;
    /** The same as `enterprise.name`. */
    enterprise_name?: string | null;
};

export type SlackInstallationEnterprise = {
    /** The organisation. */
    id: string;
    /** Its name. */
    name: string;
};

export type SlackInstallationTeam = {
    /** The workspace. */
    id: string;
    /** Its name. */
    name?: string;
};

export type SlackInstallationUser = {
    /** The Slack user who installed the app. */
    id: string;
    /** The token of the user. */
    access_token?: string;
    /** Renews the token of the user. */
    refresh_token?: string;
    /** The kind of the token. */
    token_type?: string;
    /** The scopes of the token of the user. */
    scope?: string;
    /** Seconds until the token of the user expires. */
    expires_in?: number;
};

export type SlackInstallationWebhook = {
    /** The address at which messages are posted. */
    url: string;
    /** The name of the channel. */
    channel: string;
    /** The id of the channel. */
    channel_id?: string;
    /** The page where it is configured. */
    configuration_url: string;
};

export type SlackIntegration = {
    name: 'slack';
    id: string;
    config: SlackIntegrationConfig | null;
    error?: UnreadableConfig;
    state?: IntegrationState;
};

export type SlackIntegrationConfig = {
    /** The id of the app */
    app_id: string;
    /** The client id of the app */
    client_id: string;
    /** The client secret of the app */
    client_secret: string;
    /** The signing secret of the app. It verifies the events that Slack sends */
    signing_secret: string;
};

export type SlackIntegrationList = {
    data: Array<SlackIntegration>;
    links: PageLinks;
};

export type SlackbotIntegration = {
    name: 'service_slackbot';
    id: string;
    config: SlackbotIntegrationConfig | null;
    error?: UnreadableConfig;
    state?: IntegrationState;
};

export type SlackbotIntegrationConfig = {
    /** Whether users may connect Slack through the server's own app */
    enabled: boolean;
};

export type SlackbotIntegrationList = {
    data: Array<SlackbotIntegration>;
    links: PageLinks;
};

export type SmtpIntegration = {
    name: 'smtp';
    id: string;
    config: SmtpIntegrationConfig | null;
    error?: UnreadableConfig;
    state?: IntegrationState;
};

export type SmtpIntegrationConfig = {
    /** Host name of the mail server; certificates must be issued for it */
    host: string;
    /** 587 for STARTTLS, 465 for TLS, 25 between servers */
    port: number;
    /** Account to log in with; empty to send without logging in */
    username: string;
    /** Password of the account */
    password: string;
    /** Sender of every e-mail */
    from: SmtpMailbox;
    /** Reply-To mailbox, if replies do not go to the sender */
    reply_to?: SmtpMailbox;
    /** ssl: TLS from the start. starttls: send only if the server supports STARTTLS. none: no encryption. Default: TLS on port 465, on other ports STARTTLS if the server offers it */
    security?: 'none' | 'ssl' | 'starttls';
    /** Maximum number of messages per second that all nodes send together, spread evenly; 0.5 is one every two seconds. If not given, only the limits of the provider apply */
    max_per_second?: number;
};

export type SmtpIntegrationList = {
    data: Array<SmtpIntegration>;
    links: PageLinks;
};

export type SmtpMailbox = {
    /** E-mail address */
    email: string;
    /** Name shown beside the address */
    name?: string;
};

export type Snooze = {
    /** When it returns: within the next 400 days. `null` returns it now. */
    until: string | null;
};

export type StartedWorkflowRun = {
    id: string;
};

export type StartedWorkflowRuns = {
    /** The ids of the runs, in the order of `inputs`. */
    ids: Array<string>;
};

export type StoredPreferences = {
    categories: Array<CategoryPreference>;
    /** The time zone that the user has saved, by its IANA name. `null` if none. */
    time_zone: string | null;
    quiet_hours: QuietHours | null;
};

export type StripeIntegration = {
    name: 'stripe';
    id: string;
    config: StripeIntegrationConfig | null;
    error?: UnreadableConfig;
};

export type StripeIntegrationConfig = {
    /** The endpoint's signing secret. It verifies Stripe's requests */
    webhook_signing_secret: string;
    /** Your name for this configuration, stored and returned unchanged */
    id?: string;
};

export type StripeIntegrationList = {
    data: Array<StripeIntegration>;
    links: PageLinks;
};

export type Subscription = {
    id: string;
    /** The subject that users subscribe to: the `topic` of broadcasts. */
    topic: string;
    /** `*` is first, then the order is alphabetical. */
    categories: Array<CategorySubscription>;
};

export type SubscriptionDeletedEvent = EventBase & {
    type: 'subscription.deleted';
    payload?: SubscriptionPayload;
};

export type SubscriptionDeletedMessage = {
    type: 'subscription.deleted';
    /** The time of the event. */
    timestamp: string;
    data: SubscriptionDeletedEvent;
};

export type SubscriptionInput = {
    /** The subject that users subscribe to: the `topic` of broadcasts. */
    topic: string;
    /** Each category once; its status is `subscribed` if omitted. Without categories the user subscribes to the whole topic. */
    categories?: Array<CategorySubscriptionInput>;
};

export type SubscriptionList = {
    data: Array<Subscription>;
    links: PageLinks;
};

export type SubscriptionPayload = {
    topic: string;
    categories?: Array<SubscriptionPayloadCategory>;
};

export type SubscriptionPayloadCategory = {
    slug: string;
    status: string;
};

export type SubscriptionSavedEvent = EventBase & {
    type: 'subscription.saved';
    payload?: SubscriptionPayload;
};

export type SubscriptionSavedMessage = {
    type: 'subscription.saved';
    /** The time of the event. */
    timestamp: string;
    data: SubscriptionSavedEvent;
};

export type Suppression = {
    id: string;
    kind: SuppressionKind;
    /** In lower case. `null` for a phone number, and after the data of its user was erased. */
    email: string | null;
    /** Without spaces. `null` for an e-mail address, and after the data of its user was erased. */
    phone_number: string | null;
    reason: SuppressionReason;
    /** The provider that reported it; `null` if it came by a request. */
    provider: string | null;
    /** What the provider reported. */
    detail: string | null;
    /** A note of your own. */
    note: string | null;
    created_at: string;
    updated_at: string;
};

export type SuppressionAddedEvent = EventBase & {
    type: 'suppression.added';
    context: SuppressionContext;
};

export type SuppressionAddedMessage = {
    type: 'suppression.added';
    /** The time of the event. */
    timestamp: string;
    data: SuppressionAddedEvent;
};

export type SuppressionContext = {
    suppression_id: string;
    kind: string;
};

export type SuppressionInput = ({
    email: unknown;
    phone_number?: null;
} | {
    phone_number: unknown;
    email?: null;
}) & {
    /** An e-mail address. Case does not matter. */
    email?: string | null;
    /** A phone number in international form, such as +15005550001. */
    phone_number?: string | null;
    reason?: SuppressionReason;
    /** A note of your own. */
    note?: string | null;
    readonly id?: string;
    readonly kind?: SuppressionKind;
    readonly provider?: string | null;
    readonly detail?: string | null;
    readonly created_at?: string;
    readonly updated_at?: string;
};

export type SuppressionKind = 'email' | 'phone';

export type SuppressionLiftedEvent = EventBase & {
    type: 'suppression.lifted';
    context: SuppressionContext;
};

export type SuppressionLiftedMessage = {
    type: 'suppression.lifted';
    /** The time of the event. */
    timestamp: string;
    data: SuppressionLiftedEvent;
};

export type SuppressionList = {
    data: Array<Suppression>;
    links: PageLinks;
};

/** `manual`: by a request. `rejected`: a provider rejected the address. `bounced`: a message bounced. `unsubscribed`: the recipient unsubscribed at the provider. `complained`: the recipient marked a message as spam. If there are several, the last one in this order. */
export type SuppressionReason = 'manual' | 'rejected' | 'bounced' | 'unsubscribed' | 'complained';

export type SuppressionUpdatedEvent = EventBase & {
    type: 'suppression.updated';
    context: SuppressionContext;
};

export type SuppressionUpdatedMessage = {
    type: 'suppression.updated';
    /** The time of the event. */
    timestamp: string;
    data: SuppressionUpdatedEvent;
};

export type TeamsIntegration = {
    name: 'teams';
    id: string;
    config: TeamsIntegrationConfig | null;
    error?: UnreadableConfig;
    state?: IntegrationState;
};

export type TeamsIntegrationConfig = {
    webhook?: TeamsIntegrationWebhook;
};

export type TeamsIntegrationList = {
    data: Array<TeamsIntegration>;
    links: PageLinks;
};

/** The default destination, for users without a webhook of their own */
export type TeamsIntegrationWebhook = {
    /** The URL of an incoming webhook. It is a secret: anyone with it can post to the channel */
    url: string;
};

export type TeamsToken = {
    id: string;
    webhook?: TeamsTokenWebhook;
    created_at: string;
    updated_at: string | null;
    discarded_at: string | null;
};

export type TeamsTokenInput = {
    webhook?: TeamsTokenWebhook;
};

export type TeamsTokenList = {
    data: Array<TeamsToken>;
    links: PageLinks;
};

export type TeamsTokenWebhook = {
    /** The webhook URL of a Teams workflow. If not given, the default of the integration is used. */
    url?: string;
};

export type Template = {
    id: string;
    /** The key of the template. */
    key: string;
    /** A `message` can be sent. A `layout` is HTML around the content of e-mails, which it has at `{{ content }}`. A `partial` is a part of other templates: `{% render 'key' %}`. */
    kind: 'message' | 'layout' | 'partial';
    /** Counts the changes of the template, from 1. */
    version: number;
    created_at: string;
    updated_at: string;
    /** The locale for a user if the template has texts neither for the user's locale nor for the project's. */
    default_locale: string;
    /** The texts by locale (BCP 47), such as `en` or `pt-BR`. A user with `pt-BR` gets the texts of `pt-BR`, or else of `pt`, or else of the `default_locale` of the project, or else of this one. */
    locales: {
        [key: string]: TemplateTexts;
    };
    /** The key of the layout of its e-mails. Only a message has one. */
    layout: string | null;
};

export type TemplateChannelOverrides = {
    in_app?: TemplateChannelTexts;
    mobile_push?: TemplateChannelTexts;
    email?: TemplateChannelTexts;
    sms?: TemplateChannelTexts;
    web_push?: TemplateChannelTexts;
    slack?: TemplateChannelTexts;
    teams?: TemplateChannelTexts;
};

export type TemplateChannelTexts = {
    /** A text without HTML. */
    title?: string;
    /** HTML or a plain text. Outputs are escaped; `{{ data.html | raw }}` is not. */
    content?: string | null;
    /** The address that a click opens. */
    action_url?: string | null;
};

export type TemplateContext = {
    template_key: string;
};

export type TemplateDeletedEvent = EventBase & {
    type: 'template.deleted';
    context: TemplateContext;
};

export type TemplateDeletedMessage = {
    type: 'template.deleted';
    /** The time of the event. */
    timestamp: string;
    data: TemplateDeletedEvent;
};

export type TemplateInput = {
    /** A `message` can be sent. A `layout` is HTML around the content of e-mails, which it has at `{{ content }}`. A `partial` is a part of other templates: `{% render 'key' %}`. */
    kind?: 'message' | 'layout' | 'partial';
    /** The locale for a user if the template has texts neither for the user's locale nor for the project's. */
    default_locale: string;
    /** The texts by locale (BCP 47), such as `en` or `pt-BR`. A user with `pt-BR` gets the texts of `pt-BR`, or else of `pt`, or else of the `default_locale` of the project, or else of this one. */
    locales: {
        [key: string]: TemplateTexts;
    };
    /** The key of the layout of its e-mails. Only a message has one. */
    layout?: string | null;
    readonly id?: string;
    /** The key of the template. */
    readonly key?: string;
    /** Counts the changes of the template, from 1. */
    readonly version?: number;
    readonly created_at?: string;
    readonly updated_at?: string;
};

export type TemplateOverrides = {
    channels?: TemplateChannelOverrides;
};

export type TemplatePreview = {
    /** The locale of the texts. */
    locale: string;
    /** The title, or the subject of the e-mail. */
    title: string;
    /** The content: HTML of the e-mail, and the text on all other channels. */
    content: string | null;
    action_url: string | null;
    /** The plain text of the e-mail. */
    text?: string;
    /** The size of these texts in UTF-8; of an e-mail, that of its HTML. */
    bytes: number;
    /** The size that fits the channel, with what the provider adds. Longer push messages are shortened, and Gmail clips longer e-mails. `null` if the channel counts characters. */
    max_bytes: number | null;
};

export type TemplatePreviewInput = {
    channel: Channel;
    /** Default: that of `user`, or else those of the project and of the template. */
    locale?: string | null;
    /** Members of a user that does not need to exist. */
    user?: {
        [key: string]: unknown;
    } | null;
    /** The `data` of a broadcast. */
    data?: {
        [key: string]: unknown;
    } | null;
};

/** A template without its texts. */
export type TemplateRecord = {
    id: string;
    /** The key of the template. */
    key: string;
    /** A `message` can be sent. A `layout` is HTML around the content of e-mails, which it has at `{{ content }}`. A `partial` is a part of other templates: `{% render 'key' %}`. */
    kind: 'message' | 'layout' | 'partial';
    /** Counts the changes of the template, from 1. */
    version: number;
    created_at: string;
    updated_at: string;
};

export type TemplateRecordList = {
    data: Array<TemplateRecord>;
    links: PageLinks;
};

export type TemplateSavedEvent = EventBase & {
    type: 'template.saved';
    context: TemplateContext;
    payload?: TemplateSavedPayload;
};

export type TemplateSavedMessage = {
    type: 'template.saved';
    /** The time of the event. */
    timestamp: string;
    data: TemplateSavedEvent;
};

export type TemplateSavedPayload = {
    version: number;
};

/** The texts in one language. A message needs a title in each. A layout and a partial have a `content` alone. */
export type TemplateTexts = {
    /** A text without HTML. */
    title?: string;
    /** HTML or a plain text. Outputs are escaped; `{{ data.html | raw }}` is not. */
    content?: string | null;
    /** The address that a click opens. */
    action_url?: string | null;
    overrides?: TemplateOverrides | null;
};

export type TemplateVersion = {
    version: number;
    created_at: string;
    /** A `message` can be sent. A `layout` is HTML around the content of e-mails, which it has at `{{ content }}`. A `partial` is a part of other templates: `{% render 'key' %}`. */
    kind: 'message' | 'layout' | 'partial';
    /** The locale for a user if the template has texts neither for the user's locale nor for the project's. */
    default_locale: string;
    /** The texts by locale (BCP 47), such as `en` or `pt-BR`. A user with `pt-BR` gets the texts of `pt-BR`, or else of `pt`, or else of the `default_locale` of the project, or else of this one. */
    locales: {
        [key: string]: TemplateTexts;
    };
    /** The key of the layout of its e-mails. Only a message has one. */
    layout: string | null;
};

export type TemplateVersionList = {
    /** The newest 100, newest first. */
    items: Array<TemplateVersionRecord>;
};

export type TemplateVersionRecord = {
    version: number;
    created_at: string;
};

export type TokenContext = {
    user_id: string;
    /** `<channel>/<kind>` */
    channel: string;
    /** Missing if the user was erased. */
    token_id?: string;
};

export type TokenDiscardedEvent = EventBase & {
    type: 'token.discarded';
    context: TokenContext;
};

export type TokenDiscardedMessage = {
    type: 'token.discarded';
    /** The time of the event. */
    timestamp: string;
    data: TokenDiscardedEvent;
};

export type TokenSavedEvent = EventBase & {
    type: 'token.saved';
    context: TokenContext;
};

export type TokenSavedMessage = {
    type: 'token.saved';
    /** The time of the event. */
    timestamp: string;
    data: TokenSavedEvent;
};

export type Topic = {
    /** The subject that users subscribe to: the `topic` of broadcasts. */
    topic: string;
    /** How many users are subscribed to the topic, or to some of its categories. 10,000 means 10,000 or more. A deleted user is counted until it is erased. */
    subscribers: number;
};

export type TopicList = {
    data: Array<Topic>;
    links: PageLinks;
};

/** All users who are subscribed to the `topic` of the broadcast and to its category. Users that are also named as recipients get one notification, subscribed or not. */
export type TopicRecipients = {
    topic: {
        subscribers: true;
    };
};

export type TopicSubscriberChanges = {
    /** Users whose subscription changed, each counted once. */
    changed: number;
    /** Users whose subscription was already so. */
    unchanged: number;
    /** Problems of single users, by their place in `users`. The others are changed. */
    errors: Array<TopicSubscriberError>;
};

export type TopicSubscriberError = {
    index: number;
    message: string;
};

export type TopicSubscribersInput = {
    users: Array<TopicUser>;
    /** Each category once; its status is `subscribed` if omitted. Without categories the user subscribes to the whole topic. */
    categories?: Array<CategorySubscriptionInput>;
};

export type TopicSubscribersRemovalInput = {
    users: Array<TopicUser>;
};

export type TopicUser = ({
    id: unknown;
} | {
    external_id: unknown;
} | {
    email: unknown;
}) & {
    id?: string;
    /** The id of the user in your system. Not blank. */
    external_id?: string;
    /** The user's e-mail address. */
    email?: string;
};

export type Tracking = {
    /** Records opens: e-mails load a transparent image from the server. */
    opens: boolean;
    /** Records clicks: links of e-mails lead through the server, web push messages have a `tracking_url`, and clients can report clicks. */
    clicks: boolean;
};

export type TrackingSavedEvent = EventBase & {
    type: 'tracking.saved';
    payload?: Tracking;
};

export type TrackingSavedMessage = {
    type: 'tracking.saved';
    /** The time of the event. */
    timestamp: string;
    data: TrackingSavedEvent;
};

export type TwilioIntegration = {
    name: 'twilio';
    id: string;
    config: TwilioIntegrationConfig | null;
    error?: UnreadableConfig;
    state?: IntegrationState;
};

export type TwilioIntegrationConfig = {
    /** The account SID: AC and 32 digits */
    account_sid: string;
    /** The SID of an API key of the account: SK and 32 digits */
    api_key: string;
    /** The secret of the API key */
    api_secret: string;
    /** The number to send from, such as +14155550100 */
    from: string;
    /** The auth token of the account. Used only to verify delivery-status callbacks */
    auth_token?: string;
    /** Maximum number of messages per second that all nodes send together, spread evenly; 0.5 is one every two seconds. If not given, only the limits of the provider apply */
    max_per_second?: number;
};

export type TwilioIntegrationList = {
    data: Array<TwilioIntegration>;
    links: PageLinks;
};

export type UnreadCount = {
    /** How many notifications are neither read, archived nor snoozed. 5,000 means 5,000 or more. */
    count: number;
};

/** Only if `config` is `null`: it was encrypted with a key that this server does not have, so the integration sends nothing. Save it again, or start the server with that key. */
export type UnreadableConfig = {
    code: 'config_unreadable';
    /** The missing key, and what to do. */
    message: string;
};

/** Only if the secret was encrypted with a key that this server does not have, so nothing is sent to the webhook. Messages are retried for a day. Start the server with that key, or rotate the secret. */
export type UnreadableSecret = {
    code: 'secret_unreadable';
    /** The missing key, and what to do. */
    message: string;
};

export type UnseenCount = {
    /** How many notifications are neither seen, read, archived nor snoozed. 5,000 means 5,000 or more. */
    count: number;
};

export type User = {
    id: string;
    external_id: string | null;
    email: string | null;
    first_name: string | null;
    last_name: string | null;
    locale: string | null;
    custom_attributes: {
        [key: string]: unknown;
    } | null;
    phone_numbers: Array<string>;
    created_at: string;
    updated_at: string;
    last_seen_at: string | null;
    last_notified_at: string | null;
};

export type UserContext = {
    user_id: string;
    /** The broadcast that has caused it. */
    broadcast_id?: string;
    /** The workflow run that has caused it. */
    run_id?: string;
};

export type UserCreatedEvent = EventBase & {
    type: 'user.created';
    context: UserContext;
};

export type UserCreatedMessage = {
    type: 'user.created';
    /** The time of the event. */
    timestamp: string;
    data: UserCreatedEvent;
};

export type UserDeletedEvent = EventBase & {
    type: 'user.deleted';
    context: UserContext;
};

export type UserDeletedMessage = {
    type: 'user.deleted';
    /** The time of the event. */
    timestamp: string;
    data: UserDeletedEvent;
};

export type UserDeliveryWindows = {
    /** The time zone of the user. An IANA name; if omitted, `custom_attributes.time_zone` of the user, or else that of the project. */
    time_zone?: string;
    /** Each channel once. On other channels messages are sent at any time. */
    channels: Array<ChannelDeliveryWindows>;
};

export type UserExport = {
    user: User;
    /** External ids and addresses that the user had before. */
    former_identities: Array<{
        kind: 'external_id' | 'email';
        value: string;
    }>;
    preferences: StoredPreferences;
    delivery_windows: UserDeliveryWindows;
    /** The tokens of all channels, without their secrets. */
    tokens: Array<{
        id: string;
        channel: string;
        created_at: string;
        updated_at: string | null;
        discarded_at: string | null;
    }>;
    subscriptions: Array<Subscription>;
    notifications: Array<{
        id: string;
        user_id: string;
        /** `unread` means seen but not read. An archived notification is `archived`, and a snoozed one `snoozed`, read or not. */
        status: 'unseen' | 'unread' | 'read' | 'archived' | 'snoozed';
        title: string;
        content: string | null;
        action_url: string | null;
        category: string | null;
        topic: string | null;
        custom_attributes: {
            [key: string]: unknown;
        } | null;
        created_at: string;
        updated_at: string;
        sent_at: string | null;
        seen_at: string | null;
        read_at: string | null;
        archived_at: string | null;
        discarded_at: string | null;
        /** When it returns to the inbox. */
        snoozed_until: string | null;
        /** The deliveries over all channels. */
        deliveries: Array<Delivery>;
    }>;
    /** The suppressed addresses that the user has, had, or was known with. */
    suppressions: Array<Suppression>;
    /** The entries of imports within the last seven days that named the user and failed. */
    import_failures: Array<{
        import_id: string;
        /** The place of the user in the body, from 1. */
        row: number;
        user: FailedUser;
        /** All problems of the user. */
        errors: Array<UserImportProblem>;
    }>;
    /** The runs of workflows for the user. */
    workflow_runs: Array<ExportedWorkflowRun>;
    /** The events that say something about the user besides its id. */
    events: Array<Event>;
};

export type UserImport = {
    id: string;
    status: 'enqueued' | 'processing' | 'processed';
    /** The number of users in the body. */
    total: number;
    /** The users that were processed so far, with those that failed. */
    done: number;
    created: number;
    /** Users that already existed and were changed or restored. */
    updated: number;
    failed: number;
    /** One entry for each user that failed so far. */
    failures: Array<UserImportFailure>;
    created_at: string;
    processed_at: string | null;
};

export type UserImportFailure = {
    /** The place of the user in the body, from 1. */
    row: number;
    user: FailedUser;
    /** All problems of the user. */
    errors: Array<UserImportProblem>;
};

export type UserImportInput = {
    /** Members replace stored values, missing members stay, and `null` clears. */
    users: Array<UserInput>;
};

export type UserImportProblem = {
    message: string;
};

export type UserInput = ({
    external_id: unknown;
} | {
    email: unknown;
}) & {
    /** The id of the user in your system. Not blank. */
    external_id?: string | null;
    /** The user's e-mail address. */
    email?: string | null;
    first_name?: string | null;
    last_name?: string | null;
    /** The user's language as a BCP 47 tag, such as `de` or `pt-BR`. Stored in canonical form. */
    locale?: string | null;
    custom_attributes?: {
        [key: string]: unknown;
    } | null;
    /** Phone numbers in international form, such as +15005550001. */
    phone_numbers?: Array<string>;
    readonly id?: string;
    readonly created_at?: string | null;
    readonly updated_at?: string | null;
    readonly last_seen_at?: string | null;
    readonly last_notified_at?: string | null;
};

export type UserList = {
    data: Array<User>;
    links: PageLinks;
};

export type UserName = {
    external_id: string | null;
    /** The masked e-mail address: `a***@example.com`. */
    email: string | null;
};

export type UserPreferences = {
    categories: Array<CategoryPreference>;
    /** The time zone that the user has saved, by its IANA name. `null` if none. */
    time_zone: string | null;
    quiet_hours: QuietHours | null;
    /** The page on which the user changes these preferences, without a login. */
    preferences_url: string;
};

/** A user has at most 7000 preferences, each for a category on a channel. */
export type UserPreferencesInput = {
    categories?: Array<CategoryPreferenceInput>;
    /** The time zone of the user, by its IANA name. `null` removes it. */
    time_zone?: string | null;
    quiet_hours?: QuietHours | null;
    /** The page on which the user changes these preferences, without a login. */
    readonly preferences_url?: string;
};

export type UserRecipient = ({
    external_id: unknown;
} | {
    email: unknown;
}) & {
    /** The id of the user in your system. Not blank. */
    external_id?: string | null;
    /** The user's e-mail address. */
    email?: string | null;
    first_name?: string | null;
    last_name?: string | null;
    /** The user's language as a BCP 47 tag, such as `de` or `pt-BR`. Stored in canonical form. */
    locale?: string | null;
    /** Data of your own about the user. */
    custom_attributes?: {
        [key: string]: unknown;
    } | null;
    /** Phone numbers in international form, such as +15005550001. */
    phone_numbers?: Array<string>;
};

export type UserRestoredEvent = EventBase & {
    type: 'user.restored';
    context: UserContext;
};

export type UserRestoredMessage = {
    type: 'user.restored';
    /** The time of the event. */
    timestamp: string;
    data: UserRestoredEvent;
};

/** Members in the body replace stored values, missing members stay, and `null` clears. */
export type UserUpdate = {
    /** The id of the user in your system. Not blank. */
    external_id?: string | null;
    /** The user's e-mail address. */
    email?: string | null;
    first_name?: string | null;
    last_name?: string | null;
    /** The user's language as a BCP 47 tag, such as `de` or `pt-BR`. Stored in canonical form. */
    locale?: string | null;
    custom_attributes?: {
        [key: string]: unknown;
    } | null;
    /** Phone numbers in international form, such as +15005550001. */
    phone_numbers?: Array<string>;
    readonly id?: string;
    readonly created_at?: string | null;
    readonly updated_at?: string | null;
    readonly last_seen_at?: string | null;
    readonly last_notified_at?: string | null;
};

export type UserUpdatedEvent = EventBase & {
    type: 'user.updated';
    context: UserContext;
};

export type UserUpdatedMessage = {
    type: 'user.updated';
    /** The time of the event. */
    timestamp: string;
    data: UserUpdatedEvent;
};

export type WebPushInstallationStart = {
    /** A User JWT of the same user for the page or worker that saves the subscription. It is valid for at most an hour. */
    auth_token: string;
    /** The public VAPID key of the project in base64url: `applicationServerKey` of `pushManager.subscribe`. */
    public_key: string;
};

export type WebPushIntegration = {
    name: 'web_push';
    id: string;
    config: WebPushIntegrationConfig | null;
    error?: UnreadableConfig;
    state?: IntegrationState;
};

export type WebPushIntegrationConfig = {
    /** The public VAPID key in base64url, which browsers subscribe with */
    public_key: string;
    /** The private VAPID key in base64url */
    private_key: string;
};

export type WebPushIntegrationList = {
    data: Array<WebPushIntegration>;
    links: PageLinks;
};

export type WebPushKeys = {
    /** The subscription's secret, in base64url. */
    auth: string;
    /** The subscription's public key, in base64url. */
    p256dh: string;
};

export type WebPushToken = {
    id: string;
    /** The endpoint URL of the subscription, as the browser returns it. */
    endpoint: string;
    keys: WebPushKeys;
    created_at: string;
    updated_at: string | null;
    discarded_at: string | null;
};

export type WebPushTokenInput = {
    /** The endpoint URL of the subscription, as the browser returns it. */
    endpoint: string;
    keys: WebPushKeys;
    /** The member of the browser's subscription; ignored. */
    expirationTime?: number | null;
};

export type WebPushTokenList = {
    data: Array<WebPushToken>;
    links: PageLinks;
};

export type Webhook = {
    id: string;
    /** The address that receives the events: http or https, without a user name or password. */
    url: string;
    description: string | null;
    /** The events to send: types, or families such as `delivery.*`. An empty list means all. */
    event_types: Array<EventFilter>;
    disabled: boolean;
    /** Why Belfry disabled it; `null` if a request did. */
    disabled_reason: string | null;
    /** Since when every message failed; `null` after a success. */
    failing_since: string | null;
    error?: UnreadableSecret;
    created_at: string;
    updated_at: string;
};

export type WebhookContext = {
    webhook_id: string;
};

export type WebhookDeletedEvent = EventBase & {
    type: 'webhook.deleted';
    context: WebhookContext;
};

export type WebhookDeletedMessage = {
    type: 'webhook.deleted';
    /** The time of the event. */
    timestamp: string;
    data: WebhookDeletedEvent;
};

export type WebhookDelivery = {
    /** The id of the event, and the `webhook-id` of the message. */
    id: string;
    type: EventType;
    status: WebhookDeliveryStatus;
    attempts: number;
    /** The HTTP status of the last response. */
    response_status: number | null;
    /** Why the last attempt failed. */
    reason: string | null;
    duration_ms: number | null;
    last_attempt_at: string | null;
    next_attempt_at: string | null;
};

export type WebhookDeliveryList = {
    data: Array<WebhookDelivery>;
    links: PageLinks;
};

export type WebhookDeliveryStatus = 'sent' | 'retrying' | 'failed';

export type WebhookDisabledEvent = EventBase & {
    type: 'webhook.disabled';
    context: WebhookContext;
};

export type WebhookDisabledMessage = {
    type: 'webhook.disabled';
    /** The time of the event. */
    timestamp: string;
    data: WebhookDisabledEvent;
};

/** Members in the body replace stored values, missing members stay. */
export type WebhookInput = {
    /** The webhook to change. If omitted, a new one is created. */
    id?: string;
    /** The address that receives the events: http or https, without a user name or password. */
    url: string;
    description?: string | null;
    /** The events to send: types, or families such as `delivery.*`. An empty list means all. */
    event_types?: Array<EventFilter>;
    /** A disabled webhook gets no messages. When it is enabled again, it gets the events from then on. */
    disabled?: boolean;
    readonly disabled_reason?: string | null;
    readonly failing_since?: string | null;
    readonly error?: UnreadableSecret;
    readonly created_at?: string;
    readonly updated_at?: string;
};

export type WebhookList = {
    data: Array<Webhook>;
    links: PageLinks;
};

export type WebhookReplayInput = ({
    event_id: unknown;
} | {
    since: unknown;
}) & {
    /** This event, of any type. */
    event_id?: string;
    /** Events from this time on. */
    since?: string;
    /** Events before this time; now if omitted. */
    until?: string;
    /** `failed` (if omitted): messages that failed for good. `all`: every event of the chosen types, also events that were accepted or happened while the webhook was disabled. */
    status?: 'failed' | 'all';
};

export type WebhookSavedEvent = EventBase & {
    type: 'webhook.saved';
    context: WebhookContext;
};

export type WebhookSavedMessage = {
    type: 'webhook.saved';
    /** The time of the event. */
    timestamp: string;
    data: WebhookSavedEvent;
};

export type WebhookSecret = {
    /** Verifies messages according to Standard Webhooks (https://www.standardwebhooks.com). */
    secret: string;
    /** The secret before the last rotation. Messages are signed with both. */
    former_secret?: string;
    former_secret_until?: string;
};

export type WebhookSecretRotation = {
    former_secret_until: string;
};

export type Workflow = {
    /** The key of the workflow. */
    key: string;
    /** Starts no runs. Runs that have started continue. */
    disabled?: boolean;
    /** When runs start by themselves. */
    triggers?: Array<WorkflowTrigger>;
    steps: Array<WorkflowStep>;
    /** Counts the changes of the steps, from 1. */
    version: number;
    created_at: string;
    updated_at: string;
};

/** Ends the run as aborted. */
export type WorkflowAbortInput = {
    /** For `status.error`. */
    reason?: string;
};

export type WorkflowBranch = {
    /** The condition of the branch. Without one, it always holds. */
    if?: string | null;
    steps: Array<WorkflowStep>;
};

/** Executes the steps of the first branch whose condition holds, and then the step after this one. The output is `{branch}`, the index of the branch, or `null` if none holds. Conditions see the nested steps as `steps[3].steps[0]`. */
export type WorkflowBranchInput = {
    branches: Array<WorkflowBranch>;
};

export type WorkflowBroadcastInput = ({
    title: unknown;
} | {
    template: unknown;
}) & {
    /** The title. Required unless there is a `template`. */
    title?: string;
    /** The text. The inbox and e-mails render HTML. */
    content?: string | null;
    /** The address that a click opens. */
    action_url?: string | null;
    category?: string | null;
    topic?: string | null;
    /** Data of your own. Clients get it unchanged. */
    custom_attributes?: {
        [key: string]: unknown;
    } | null;
    overrides?: BroadcastOverrides | null;
    /** When it is sent: up to 400 days from now. It is sent at once without a time, or with one in the past. Until then it can be cancelled. */
    send_at?: string | null;
    template?: BroadcastTemplate | null;
    readonly id?: string;
    readonly created_at?: string;
    readonly cancelled_at?: string | null;
    readonly status?: BroadcastStatus;
    recipients?: Array<Recipient> | null;
};

export type WorkflowContext = {
    workflow_key: string;
};

export type WorkflowDeletedEvent = EventBase & {
    type: 'workflow.deleted';
    context: WorkflowContext;
};

export type WorkflowDeletedMessage = {
    type: 'workflow.deleted';
    /** The time of the event. */
    timestamp: string;
    data: WorkflowDeletedEvent;
};

/** Collects the runs that come to this step with the same user, key and version of the workflow. The first one waits until the window closes, and continues with the output `{items, count}`: the inputs of all, in the order in which they started. The others end as completed, with the output `{digest}`, the id of the first. `items` has at most 1,000 inputs with 256 KiB in all; `count` counts all. Cancelling the first run drops the digest. */
export type WorkflowDigestInput = {
    /** How long the digest is open. In seconds. */
    window: number;
    /** Makes the window slide: each run that joins keeps the digest open for another `window`, until this long after the first. In seconds. */
    max_window?: number;
    /** Only runs with the same key share a digest, such as `{{ input.document_id }}`. */
    key?: string;
};

export type WorkflowEventInput = {
    /** The name of the event. It cannot be that of an event of Belfry. */
    name: string;
    /** The user of the event. */
    user?: TopicUser | null;
    /** At most 16384 characters of JSON: `event.data`. */
    data?: {
        [key: string]: unknown;
    } | null;
};

/** Sends a request to a public address, at least once. The output is `{status, body}`: the body is parsed if it is JSON. A body of more than 16 KiB is cut and stays a text, and the output has `truncated: true`. If it is JSON and the workflow reads a `body` of `steps`, the run fails. A response other than 2xx fails the run. */
export type WorkflowHttpInput = {
    /** A public address that begins with https:// or http://. A private one is rejected when the workflow is saved or, if a template makes it, when the request is sent. */
    url: string;
    /** Default: `POST`. */
    method?: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
    headers?: {
        [key: string]: string;
    };
    /** Sent as JSON; a string is sent as it is. */
    body?: unknown;
    /** Attempts after the first if there is no response within 30 s, or a 408, 429 or 5xx. `Retry-After` is respected, up to an hour. Default: 3. */
    retries?: number;
};

export type WorkflowInput = {
    /** The key of the workflow. */
    key: string;
    /** Starts no runs. Runs that have started continue. */
    disabled?: boolean;
    /** When runs start by themselves. */
    triggers?: Array<WorkflowTrigger>;
    steps: Array<WorkflowStep>;
    /** Counts the changes of the steps, from 1. */
    readonly version?: number;
    readonly created_at?: string;
    readonly updated_at?: string;
};

export type WorkflowList = {
    items: Array<Workflow>;
};

/** The run waits for `POST /workflows/runs/{run_id}/resume`. The members are up to you. */
export type WorkflowPauseInput = {
    [key: string]: unknown;
};

export type WorkflowRun = {
    id: string;
    workflow_key: string;
    /** The version of the workflow that the run executes. */
    version: number;
    /** The user of the run. */
    user_id?: string;
    status: WorkflowRunStatus;
    created_at: string;
    input: {
        [key: string]: unknown;
    };
    /** The steps that have begun, in their order. */
    steps: Array<WorkflowRunStep>;
};

export type WorkflowRunAbortedEvent = EventBase & {
    type: 'workflow.run.aborted';
    context: WorkflowRunContext;
};

export type WorkflowRunAbortedMessage = {
    type: 'workflow.run.aborted';
    /** The time of the event. */
    timestamp: string;
    data: WorkflowRunAbortedEvent;
};

export type WorkflowRunCompletedEvent = EventBase & {
    type: 'workflow.run.completed';
    context: WorkflowRunContext;
};

export type WorkflowRunCompletedMessage = {
    type: 'workflow.run.completed';
    /** The time of the event. */
    timestamp: string;
    data: WorkflowRunCompletedEvent;
};

export type WorkflowRunContext = {
    workflow_key: string;
    /** Missing if no run was started. */
    run_id?: string;
    user_id?: string;
};

/** Data for conditions and templates. The run has no user if `user` is missing, or has no `id`, `external_id` or `email`. */
export type WorkflowRunData = {
    user?: WorkflowRunUser | {
        [key: string]: unknown;
    } | Array<unknown> | string | number | boolean | null;
    [key: string]: unknown;
};

export type WorkflowRunFailedEvent = EventBase & {
    type: 'workflow.run.failed';
    context: WorkflowRunContext;
};

export type WorkflowRunFailedMessage = {
    type: 'workflow.run.failed';
    /** The time of the event. */
    timestamp: string;
    data: WorkflowRunFailedEvent;
};

export type WorkflowRunInput = {
    /** The key of the workflow. */
    key: string;
    input?: WorkflowRunData | null;
};

export type WorkflowRunPreventedEvent = EventBase & {
    type: 'workflow.run.prevented';
    context: WorkflowRunContext;
};

export type WorkflowRunPreventedMessage = {
    type: 'workflow.run.prevented';
    /** The time of the event. */
    timestamp: string;
    data: WorkflowRunPreventedEvent;
};

export type WorkflowRunRecord = {
    id: string;
    workflow_key: string;
    /** The version of the workflow that the run executes. */
    version: number;
    /** The user of the run. */
    user_id?: string;
    status: WorkflowRunStatus;
    created_at: string;
};

export type WorkflowRunRecordList = {
    data: Array<WorkflowRunRecord>;
    links: PageLinks;
};

export type WorkflowRunRerunEvent = EventBase & {
    type: 'workflow.run.rerun';
    context: WorkflowRunContext;
};

export type WorkflowRunRerunMessage = {
    type: 'workflow.run.rerun';
    /** The time of the event. */
    timestamp: string;
    data: WorkflowRunRerunEvent;
};

export type WorkflowRunResumedEvent = EventBase & {
    type: 'workflow.run.resumed';
    context: WorkflowRunContext;
};

export type WorkflowRunResumedMessage = {
    type: 'workflow.run.resumed';
    /** The time of the event. */
    timestamp: string;
    data: WorkflowRunResumedEvent;
};

export type WorkflowRunStartedEvent = EventBase & {
    type: 'workflow.run.started';
    context: WorkflowRunContext;
};

export type WorkflowRunStartedMessage = {
    type: 'workflow.run.started';
    /** The time of the event. */
    timestamp: string;
    data: WorkflowRunStartedEvent;
};

export type WorkflowRunStatus = {
    /** 0 enqueued, 1 running, 2 waiting, 3 completed, 4 aborted, 5 failed. */
    state: number;
    /** The index of the next step. */
    next_step?: number;
    started_at?: string;
    /** When the run completed, failed or was aborted. */
    completed_at?: string;
    /** Why the run failed or was aborted. */
    error?: string;
};

export type WorkflowRunStep = {
    /** The index of the step. In a branch: `3.0.2` is step 2 of branch 0 of step 3. */
    place: string;
    command: string;
    /** `skipped`: its condition did not hold. `aborted`: the run was cancelled while it waited. */
    state: 'completed' | 'skipped' | 'waiting' | 'failed' | 'aborted';
    started_at: string;
    completed_at?: string;
    /** What later steps find in `steps[i].output`. */
    output?: {
        [key: string]: unknown;
    };
    error?: string;
};

export type WorkflowRunStepEvent = EventBase & {
    type: 'workflow.run.step';
    context: WorkflowRunContext;
};

export type WorkflowRunStepMessage = {
    type: 'workflow.run.step';
    /** The time of the event. */
    timestamp: string;
    data: WorkflowRunStepEvent;
};

export type WorkflowRunUser = ({
    id: unknown;
} | {
    external_id: unknown;
} | {
    email: unknown;
}) & {
    id?: string | null;
    /** The id of the user in your system. Not blank. */
    external_id?: string | null;
    /** The user's e-mail address. */
    email?: string | null;
    first_name?: string | null;
    last_name?: string | null;
    /** The user's language as a BCP 47 tag, such as `de` or `pt-BR`. Stored in canonical form. */
    locale?: string | null;
    /** Data of your own about the user. */
    custom_attributes?: {
        [key: string]: unknown;
    } | null;
    /** Phone numbers in international form, such as +15005550001. */
    phone_numbers?: Array<string>;
    [key: string]: unknown;
};

export type WorkflowRunsInput = {
    /** The key of the workflow. */
    key: string;
    inputs: Array<WorkflowRunData>;
};

export type WorkflowSavedEvent = EventBase & {
    type: 'workflow.saved';
    context: WorkflowContext;
};

export type WorkflowSavedMessage = {
    type: 'workflow.saved';
    /** The time of the event. */
    timestamp: string;
    data: WorkflowSavedEvent;
};

/** Values that later steps find in `run.data`. A member replaces an earlier one of its name. */
export type WorkflowSetInput = {
    [key: string]: unknown;
};

export type WorkflowStep = {
    /** What the step does: `broadcast`, `wait`, `wait_for`, `digest`, `throttle`, `pause`, `abort`, `branch`, `set`, `update_user` or `http`. A run fails at a step whose command does not exist. */
    command: string;
    /** The step is skipped unless this condition holds: CEL over `input`, `user`, `steps`, `run` and `notification`. */
    if?: string | null;
    /** The input of the command: see the schemas `Workflow…Input`. Every string is a Liquid template over the same data as conditions. A string that is a single output of a list or an object becomes that value. */
    input?: WorkflowBroadcastInput | WorkflowWaitInput | WorkflowWaitForInput | WorkflowPauseInput | WorkflowAbortInput | WorkflowBranchInput | WorkflowSetInput | WorkflowUpdateUserInput | WorkflowHttpInput | WorkflowDigestInput | WorkflowThrottleInput | {
        [key: string]: unknown;
    } | null;
};

/** At most `limit` runs pass in any `window`. The others end as aborted, with the reason in `status.error`. */
export type WorkflowThrottleInput = {
    /** How many runs pass within `window`. */
    limit: number;
    /** The time before now in which runs are counted. In seconds. */
    window: number;
    /** Counts runs with the same key, over all users. By default each user is counted alone. */
    key?: string;
};

/** Either an `event` (and `if`), or a `schedule` (and `time_zone`, `missed`, `input`). */
export type WorkflowTrigger = {
    /** The name of an event of `POST /workflows/events`, of an integration (`integration.stripe.invoice.paid`), or of Belfry except for those of workflows. The `input` of the run is the event, and its user is that of the event. */
    event?: string;
    /** Only events for which this condition holds start a run: CEL over `event`. If it cannot be evaluated for an event, that event starts no run. */
    if?: string | null;
    /** A cron expression: minute, hour, day of the month, month and day of the week, or a name such as `@daily`. At most once a minute. If a clock change skips a time of the day, its run starts at the end of the gap. If the time occurs twice, the run starts the first time. An hour that begins with `*` follows the clock instead: a run starts whenever the clock shows the time. */
    schedule?: string;
    /** A time zone by its IANA name. Default: `UTC`. */
    time_zone?: string;
    /** What follows if no server was running at the time: one run, however many were missed, or none. Default: `run_once`. */
    missed?: 'run_once' | 'skip';
    /** The `input` of a run that the schedule starts. */
    input?: WorkflowRunData;
};

/** Changes of the user of the run, as in `PATCH /users/{user_id}`. */
export type WorkflowUpdateUserInput = {
    /** The id of the user in your system. Not blank. */
    external_id?: string | null;
    /** The user's e-mail address. */
    email?: string | null;
    first_name?: string | null;
    last_name?: string | null;
    /** The user's language as a BCP 47 tag, such as `de` or `pt-BR`. Stored in canonical form. */
    locale?: string | null;
    custom_attributes?: {
        [key: string]: unknown;
    } | null;
    /** Phone numbers in international form, such as +15005550001. */
    phone_numbers?: Array<string>;
    readonly id?: string;
    readonly created_at?: string | null;
    readonly updated_at?: string | null;
    readonly last_seen_at?: string | null;
    readonly last_notified_at?: string | null;
};

export type WorkflowVersion = {
    version: number;
    created_at: string;
    steps: Array<WorkflowStep>;
};

export type WorkflowVersionList = {
    /** The newest 100, newest first. */
    items: Array<WorkflowVersionRecord>;
};

export type WorkflowVersionRecord = {
    version: number;
    created_at: string;
};

/** The run waits for an event of `POST /workflows/events`, of an integration (`integration.stripe.invoice.paid`) or of Belfry, such as `notification.seen`. If both the run and the event have a user, it must be the same; if the run has sent a broadcast, an event of a notification must be of the last one. The output is `{event}` or, if none came in time, `{timed_out: true}`. */
export type WorkflowWaitForInput = {
    /** The name of the event. */
    event: string;
    /** How long the run waits at most: in seconds, at most 400 days. */
    timeout: number;
    /** Only an event for which this condition holds continues the run: CEL over `event`, `input`, `user`, `steps`, `run` and `notification`. If it cannot be evaluated for an event, that event does not continue the run. */
    if?: string | null;
};

/** Until the delivery window of the user opens for this channel, as for a broadcast of the category. No time if it is open. */
export type WorkflowWaitForWindow = {
    channel: 'slack' | 'web_push' | 'mobile_push' | 'teams' | 'email' | 'sms';
    category?: string | null;
};

/** How long the run waits: either `duration`, `until` or `delivery_window`. */
export type WorkflowWaitInput = {
    /** In seconds, at most 400 days. */
    duration?: number;
    /** A time within the next 400 days, or in the past. */
    until?: string;
    delivery_window?: WorkflowWaitForWindow;
};

export type ListBroadcastsQuery = {
    /** The maximum number of records on a page. */
    limit?: number;
    /** The id of the last record of a page. Returns the page after it. */
    starting_after?: string | null;
    /** The id of the first record of a page. Returns the page before it. */
    ending_before?: string | null;
    /** Only broadcasts that wait for their `send_at`. */
    status?: 'scheduled';
};

export type ListBroadcastDeliveriesQuery = {
    /** The maximum number of records on a page. */
    limit?: number;
    /** The id of the last record of a page. Returns the page after it. */
    starting_after?: string | null;
    /** The id of the first record of a page. Returns the page before it. */
    ending_before?: string | null;
    /** Only deliveries in this state. */
    state?: DeliveryState;
    /** Only deliveries on this channel. */
    channel?: Channel;
};

export type ListNotificationsQuery = {
    /** The maximum number of records on a page. */
    limit?: number;
    /** The id of the last record of a page. Returns the page after it. */
    starting_after?: string | null;
    /** The id of the first record of a page. Returns the page before it. */
    ending_before?: string | null;
    /** Only notifications that are unread (seen or not), read, archived or snoozed. If omitted, all that are neither archived nor snoozed. */
    status?: 'unread' | 'read' | 'archived' | 'snoozed';
    /** Only notifications of this category. `uncategorized` selects those without one. */
    category?: string;
    /** Only notifications of this topic. */
    topic?: string;
};

export type NotificationsQuery = {
    /** Only notifications of this category. `uncategorized` selects those without one. */
    category?: string;
    /** Only notifications of this topic. */
    topic?: string;
};

export type ListQuery = {
    /** The maximum number of records on a page. */
    limit?: number;
    /** The id of the last record of a page. Returns the page after it. */
    starting_after?: string | null;
    /** The id of the first record of a page. Returns the page before it. */
    ending_before?: string | null;
};

export type ListTokensQuery = {
    /** The maximum number of records on a page. */
    limit?: number;
    /** The id of the last record of a page. Returns the page after it. */
    starting_after?: string | null;
    /** The id of the first record of a page. Returns the page before it. */
    ending_before?: string | null;
};

export type ListTopicsQuery = {
    /** The maximum number of records on a page. */
    limit?: number;
    /** The id of the last record of a page. Returns the page after it. */
    starting_after?: string | null;
    /** The id of the first record of a page. Returns the page before it. */
    ending_before?: string | null;
};

export type ListCategoryDeliveryConfigsQuery = {
    /** The maximum number of records on a page. */
    limit?: number;
    /** The key of the last record of a page. Returns the page after it. */
    starting_after?: string | null;
    /** The key of the first record of a page. Returns the page before it. */
    ending_before?: string | null;
};

export type SaveIntegrationQuery = {
    /** The integration, if the project has several of this provider. */
    id?: string;
    /** Tests the config before it is saved. Malformed keys, a rejection by the provider, or a provider that does not respond are a 422. Providers without a way to test accept every config. */
    verify?: boolean;
};

export type DeleteIntegrationQuery = {
    /** The integration, if the project has several of this provider. */
    id?: string;
};

export type ListUsersQuery = {
    /** The maximum number of records on a page. */
    limit?: number;
    /** The id of the last record of a page. Returns the page after it. */
    starting_after?: string | null;
    /** The id of the first record of a page. Returns the page before it. */
    ending_before?: string | null;
    /** Only users whose `external_id` (with the same case), e-mail address or name (in any case) begins with this. The name is the whole name or one of the first three words of the first or last name. Of more than 500 matches of a kind, the first in alphabetical order are found. */
    query?: string;
};

export type ListSuppressionsQuery = {
    /** The maximum number of records on a page. */
    limit?: number;
    /** The id of the last record of a page. Returns the page after it. */
    starting_after?: string | null;
    /** The id of the first record of a page. Returns the page before it. */
    ending_before?: string | null;
    /** Only addresses of this kind. */
    kind?: SuppressionKind;
    /** Only suppressions with this reason. */
    reason?: SuppressionReason;
    /** Only this e-mail address or phone number in international form. It is also found after the record stopped showing it. */
    query?: string;
};

export type ListEventsQuery = {
    /** The maximum number of records on a page. */
    limit?: number;
    /** The id of the last record of a page. Returns the page after it. */
    starting_after?: string | null;
    /** The id of the first record of a page. Returns the page before it. */
    ending_before?: string | null;
    /** Only events of these types: types separated by commas, or families such as `delivery.*`. */
    type?: string;
    /** Only events at this time or later. */
    since?: string;
    /** Only events before this time. */
    until?: string;
};

export type StreamEventsQuery = {
    /** Only events of these types: types separated by commas, or families such as `delivery.*`. */
    type?: string;
};

export type ListWebhookDeliveriesQuery = {
    /** The maximum number of records on a page. */
    limit?: number;
    /** The id of the last record of a page. Returns the page after it. */
    starting_after?: string | null;
    /** The id of the first record of a page. Returns the page before it. */
    ending_before?: string | null;
    /** Only messages in this state. */
    status?: WebhookDeliveryStatus;
};

export type ListWorkflowRunsQuery = {
    /** The maximum number of records on a page. */
    limit?: number;
    /** The id of the last record of a page. Returns the page after it. */
    starting_after?: string | null;
    /** The id of the first record of a page. Returns the page before it. */
    ending_before?: string | null;
    /** Only runs in this state. */
    state?: number;
};

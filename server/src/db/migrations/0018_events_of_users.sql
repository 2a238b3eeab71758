-- The events that say something about a user beside the user's id, by user: they are redacted when the user
-- is erased (domain/after/erasure/purge-users.ts).
create index events_of_users on events (user_ids)
where type in (
    'token.saved', 'token.discarded', 'delivery.clicked', 'installation.saved', 'installation.broken', 'subscription.saved',
    'subscription.deleted', 'preferences.updated', 'delivery_windows.saved'
  )
  or (type in ('notification.seen', 'notification.read', 'notification.archived') and details is not null);
drop index events_of_tokens;
drop index events_of_clicks;

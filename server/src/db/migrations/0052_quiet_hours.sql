-- The quiet hours of users: {days?, from, to}.

alter table user_delivery_windows add column quiet_hours json;

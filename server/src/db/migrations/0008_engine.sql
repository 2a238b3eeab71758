-- Deliveries to several targets, by messages that cost money, and what is heard of them later.

alter table deliveries
  -- what a provider reported after it had taken the message: delivered, bounced, complained or dropped. It
  -- changes no state.
  add column receipt text check (receipt in ('delivered', 'bounced', 'complained', 'dropped')),
  add column receipt_at timestamptz,
  -- of the devices, browsers or chats of the user, where there is more than one:
  -- {"accepted": 2, "gone": 1, "failed": 0, "provider_ids": ["4b1f…", "4b20…"]}
  add column targets json,
  -- Text messages whose fate is not known: written down before each is sent, and taken back when it surely
  -- was not taken. See domain/line/sending/text-marks.ts.
  add column unsure smallint not null default 0;

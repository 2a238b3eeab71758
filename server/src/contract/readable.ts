import type { Members, Shape } from '../lib/variables.ts';

/* The data that conditions and templates read (domain/line/routing/condition-data.ts). */

/** A user. */
export const USER_MEMBERS = {
  id: 'value',
  external_id: 'value',
  email: 'value',
  first_name: 'value',
  last_name: 'value',
  locale: 'value',
  custom_attributes: 'open',
  phone_numbers: 'open',
  created_at: 'value',
  last_seen_at: 'value',
} as const satisfies Members;

/** The content of a broadcast. */
export const CONTENT_MEMBERS = {
  title: 'value',
  content: 'value',
  action_url: 'value',
  category: 'value',
  topic: 'value',
  custom_attributes: 'open',
} as const satisfies Members;

/** What a notification has beside the content of its broadcast. */
export const NOTIFICATION_STATE = {
  id: 'value',
  user_id: 'value',
  status: 'value',
  seen: 'value',
  unseen: 'value',
  read: 'value',
  unread: 'value',
  archived: 'value',
  deleted: 'value',
  created_at: 'value',
  sent_at: 'value',
  seen_at: 'value',
  read_at: 'value',
  archived_at: 'value',
} as const satisfies Members;

const NOTIFICATION_MEMBERS: Members = { ...CONTENT_MEMBERS, ...NOTIFICATION_STATE };

/** What conditions of categories read. */
export const CATEGORY_DATA: Members = {
  user: USER_MEMBERS,
  notification: NOTIFICATION_MEMBERS,
  input: CONTENT_MEMBERS,
};

/** What the texts of templates read. */
export const TEMPLATE_DATA = {
  user: USER_MEMBERS,
  data: 'open',
  project: { id: 'value', name: 'value', logo_url: 'value' },
  unsubscribe_url: 'value',
  preferences_url: 'value',
} as const satisfies Members;

/** What layouts read. */
export const LAYOUT_DATA: Members = {
  ...TEMPLATE_DATA,
  title: 'value',
  content: 'value',
  action_url: 'value',
};

/** A run of a workflow. */
export const RUN_MEMBERS = {
  id: 'value',
  workflow_key: 'value',
  version: 'value',
  created_at: 'value',
  data: 'open',
} as const satisfies Members;

/** A step of a run that has begun. A branch also has `steps`. */
export const STEP_MEMBERS = {
  state: 'value',
  output: 'open',
  error: 'value',
  started_at: 'value',
  completed_at: 'value',
} as const satisfies Members;

/** What conditions and templates of a step read, where `steps` are the ones before. */
export function workflowData(steps: readonly Shape[]): Members {
  return { input: 'open', user: USER_MEMBERS, notification: NOTIFICATION_MEMBERS, run: RUN_MEMBERS, steps };
}

/** Data with exactly these members. */
export type DataOf<Of extends Members> = { [Name in keyof Of]: unknown };

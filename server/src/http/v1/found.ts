import { ClientError } from '../../errors.ts';

// As the published clients know them.
const MESSAGES = {
  notification: "A notification with the the given id doesn't exist",
  broadcast: "A broadcast with the the given id doesn't exist",
  user: "A user with the the given id doesn't exist",
  device: 'No subscription with the provided device token was found',
} as const;

/** Returns a record. Throws `not_found` if there is none: it may be deleted while it is requested. */
export function found<Value>(record: Value | undefined, kind: keyof typeof MESSAGES): Value {
  if (record === undefined) throw notFound(kind);
  return record;
}

/** The error for a record that does not exist, or that the caller must not see. */
export function notFound(kind: keyof typeof MESSAGES): ClientError {
  return new ClientError('not_found', [MESSAGES[kind]]);
}

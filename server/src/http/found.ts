import { ClientError } from '../errors.ts';

/** Returns a record. Throws `not_found` if there is none: it may also be deleted while it is requested. */
export function found<Value>(record: Value | undefined): Value {
  if (record === undefined) throw new ClientError('not_found');
  return record;
}

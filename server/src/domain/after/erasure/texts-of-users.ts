import { sql } from '../../../db/client.ts';

/** Deletes the texts that templates made for these users alone, by broadcast and user. Primary key. */
export const TEXTS_OF_USERS = sql(
  'purge_texts_of_users',
  `delete from broadcast_texts t
  using unnest($1::uuid[], $2::uuid[]) as gone (broadcast_id, user_id)
  where t.broadcast_id = gone.broadcast_id and t.reader = gone.user_id::text`,
);

import type { SuppressionKind } from '../../../contract/suppression.ts';
import type { NewEvent } from '../events/record.ts';

/**
 * Returns the event of a suppression. It contains the suppression's id and known users, never the address.
 */
export function suppressionEvent(
  type: 'suppression.added' | 'suppression.updated' | 'suppression.lifted',
  row: { project_id: string; id: string; kind: SuppressionKind; user_ids: readonly string[] },
): NewEvent {
  const users = row.user_ids.length === 0 ? {} : { user_ids: row.user_ids };
  return {
    projectId: row.project_id,
    type,
    details: { context: { suppression_id: row.id, kind: row.kind, ...users } },
  };
}

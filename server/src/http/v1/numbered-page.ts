import { ClientError } from '../../errors.ts';
import { rawJson } from '../reply.ts';

/** The members of a numbered page, without its records. */
export function pagesOf(total: number, page: number, perPage: number) {
  return { total, per_page: perPage, total_pages: Math.ceil(total / perPage), current_page: page };
}

/** A page of notifications that are JSON texts. */
export function notificationPage(members: Record<string, number>, records: readonly string[]) {
  return rawJson(`${JSON.stringify(members).slice(0, -1)},"notifications":[${records.join()}]}`);
}

/** Returns the texts of a page. Throws if a response cannot hold all: the next page would lack the rest. */
export function whole<Text>(texts: readonly Text[], rows: { length: number }): readonly Text[] {
  if (texts.length < rows.length) {
    throw new ClientError('validation_failed', [
      `Param 'per_page' must be smaller: of this page, only ${texts.length} fit into a response`,
    ]);
  }
  return texts;
}

import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { sql } from '../src/db/client.ts';
import type { NewSuppression } from '../src/domain/suppressions/suppress.ts';
import { suppressAddresses } from '../src/domain/suppressions/suppress.ts';
import { findSuppressed } from '../src/domain/suppressions/suppressed.ts';
import { startTestService, type TestProject, type TestService } from './support/service.ts';

let service: TestService;
let project: TestProject;

beforeAll(async () => {
  service = await startTestService();
  project = service.project;
});
afterAll(() => service?.stop());

const rows = <Row = Record<string, unknown>>(text: string, values: readonly unknown[] = []) =>
  service.context.db.query<Row>(sql('', text), values);

/** Suppresses as deliveries and receipts do. */
function suppress(...list: (Partial<NewSuppression> & { address: string })[]): Promise<void> {
  const { db, addressKeys } = service.context;
  return db.transaction((tx) =>
    suppressAddresses(
      { db: tx, addressKeys },
      list.map((one) => ({
        projectId: project.id,
        kind: 'email',
        reason: 'bounced',
        detail: null,
        provider: 'ses',
        ...one,
      })),
    ),
  );
}

const isSuppressed = async (address: string, kind: 'email' | 'phone' = 'email', of = project.id) =>
  (await findSuppressed(service.context, of, [{ kind, address }]))(kind, address);

describe('suppressing', () => {
  test('an address is found in every spelling, in its own project alone', async () => {
    await suppress(
      { address: ' Ada@Example.com ' },
      { kind: 'phone', address: '+1 (500) 555-0001', reason: 'rejected' },
    );
    const found = await findSuppressed(service.context, project.id, [
      { kind: 'email', address: 'ADA@example.COM' },
      { kind: 'phone', address: '+15005550001' },
      { kind: 'email', address: 'other@example.com' },
    ]);
    expect(found('email', 'ada@example.com')).toMatchObject({ kind: 'email', reason: 'bounced' });
    expect(found('phone', '+1 500 555 0001')).toMatchObject({ kind: 'phone', reason: 'rejected' });
    expect(found('email', 'other@example.com')).toBeUndefined();
    const other = await service.createProject('other');
    expect(await isSuppressed('ada@example.com', 'email', other.id)).toBeUndefined();
  });
});
void rows;

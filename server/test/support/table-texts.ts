import { expect } from 'vitest';
import { unpackJson } from '../../src/lib/packed-json.ts';
import type { TestService } from './service.ts';

/** Every row of every table as text, with packed or compressed values unpacked. */
export async function tableTexts(service: Pick<TestService, 'rows'>): Promise<string[]> {
  const tables = await service.rows<{ name: string }>(
    `select relname::text as name from pg_class where relnamespace = current_schema()::regnamespace
      and relkind = 'r'`,
  );
  expect(tables.length).toBeGreaterThan(20);
  const texts: string[] = [];
  for (const { name } of tables)
    for (const row of await service.rows(`select * from ${name}`))
      texts.push(
        `${name}: ${Object.entries(row)
          .map(([column, value]) => `${column}=${asText(value)}`)
          .join(' ')}`,
      );
  return texts;
}

function asText(value: unknown): string {
  if (!Buffer.isBuffer(value)) return JSON.stringify(value) ?? '';
  try {
    return unpackJson(value);
  } catch {
    return value.toString('latin1');
  }
}

import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { type Database, openDatabase, type Statement, sql } from '../../src/db/client.ts';
import type { RealtimeMessage } from '../../src/domain/ground/bus/messages.ts';
import { assignToCell, CellDirectory } from '../../src/domain/setup/cells/directory.ts';
import { newId } from '../../src/lib/ids.ts';
import { createTestDatabase, type TestDatabase } from '../support/database.ts';

let database: TestDatabase;
let db: Database;
beforeAll(async () => {
  database = await createTestDatabase();
  db = openDatabase(database.connection, { size: 2, name: 'directory' });
  await db.query(
    sql('', "insert into cells (name, schema_name) values ('eu', 'belfry_eu'), ('us', 'belfry_us')"),
  );
});
afterAll(async () => {
  await db?.close();
  await database?.drop();
});

/** A directory whose queries are counted, and fail while it is `away`. */
function create() {
  const state = { queries: 0, away: false, nowMs: 0 };
  const query = <Row>(statement: Statement, values?: readonly unknown[]): Promise<Row[]> => {
    state.queries += 1;
    return state.away ? Promise.reject(new Error('the database is away')) : db.query<Row>(statement, values);
  };
  return { state, directory: new CellDirectory({ db: { query }, clock: { now: () => state.nowMs } }) };
}

async function project(cell: string): Promise<{ id: string; apiKey: string }> {
  const made = { id: newId(), apiKey: `pk_${newId().replaceAll('-', '')}` };
  await assignToCell(db, { ...made, cell });
  return made;
}

test('projects are found by id and by API key, and are cached', async () => {
  const { directory, state } = create();
  const { id, apiKey } = await project('eu');
  const found = await Promise.all([
    directory.find({ projectId: id.toUpperCase() }),
    directory.find({ apiKey }),
    directory.find({ projectId: newId() }),
    directory.find({ apiKey: 'pk_unknown' }),
  ]);
  expect(found).toEqual(['eu', 'eu', undefined, undefined]);
  expect(state.queries).toBe(1);
  expect(directory.find({ projectId: id })).toBe('eu');
  expect(directory.find({ apiKey: 'pk_unknown' })).toBeUndefined();
  expect(state.queries).toBe(1);
});

test('a project that was moved is found in its new cell after some seconds', async () => {
  const { directory, state } = create();
  const { id } = await project('eu');
  expect(await directory.find({ projectId: id })).toBe('eu');
  await db.query(sql('', "update cell_projects set cell = 'us' where project_id = $1"), [id]);
  state.nowMs = 5_000;
  expect(directory.find({ projectId: id })).toBe('eu'); // while it is read again
  await expect.poll(() => directory.find({ projectId: id })).toBe('us');
  await db.query(sql('', 'delete from cell_projects where project_id = $1'), [id]);
  state.nowMs = 10_000;
  await expect.poll(() => directory.find({ projectId: id })).toBeUndefined();
});

test('requests of a project that has not been used for a while find its new cell at once', async () => {
  const { directory, state } = create();
  const { id } = await project('eu');
  expect(await directory.find({ projectId: id })).toBe('eu');
  await db.query(sql('', "update cell_projects set cell = 'us' where project_id = $1"), [id]);
  state.nowMs = 10_000;
  expect(await directory.find({ projectId: id })).toBe('us');
});

test('what was read before the clock went back is read again', async () => {
  const { directory, state } = create();
  const { id } = await project('eu');
  state.nowMs = 3_600_000;
  expect(await directory.find({ projectId: id })).toBe('eu');
  await db.query(sql('', "update cell_projects set cell = 'us' where project_id = $1"), [id]);
  state.nowMs = 1_000;
  expect(await directory.find({ projectId: id })).toBe('us');
  expect(directory.find({ projectId: id })).toBe('us');
});

test('requests of a project that is about to move wait until it has moved, or stays', async () => {
  const { directory } = create();
  let publish: (message: RealtimeMessage) => void = () => {};
  const stop = directory.follow({
    subscribe(handler) {
      publish = handler;
      return () => {};
    },
  });
  onTestFinished(stop);
  const { id, apiKey } = await project('eu');
  const names = [{ projectId: id }, { apiKey }] as const;
  const known = () => names.map((name) => directory.find(name));
  expect(await Promise.all(known())).toEqual(['eu', 'eu']);
  const other = await project('us');
  expect(await directory.find({ projectId: other.id })).toBe('us');

  publish({ type: 'project_moving', projectId: id, apiKey });
  const waiting = known();
  let found: unknown;
  const all = Promise.all(waiting).then((cells) => {
    found = cells;
  });
  expect(directory.find({ projectId: other.id })).toBe('us'); // the others do not wait
  expect(found).toBeUndefined();
  publish({ type: 'project_stays', projectId: id, apiKey });
  await all;
  expect(found).toEqual(['eu', 'eu']);

  publish({ type: 'project_moving', projectId: id, apiKey });
  const moving = Promise.all(known());
  publish({ type: 'project_moved', projectId: id, apiKey, cell: 'us' });
  expect(await moving).toEqual(['us', 'us']);
  expect(known()).toEqual(['us', 'us']);
  publish({ type: 'project_moved', projectId: id, apiKey, cell: 'public' });
  expect(known()).toEqual([undefined, undefined]);
});

test('known projects are found while the database is away; unknown ones are an error', async () => {
  const { directory, state } = create();
  const { id } = await project('us');
  expect(await directory.find({ projectId: id })).toBe('us');
  Object.assign(state, { away: true, nowMs: 60_000 });
  for (let count = 0; count < 3; count += 1) expect(await directory.find({ projectId: id })).toBe('us');
  await expect(directory.find({ projectId: newId() })).rejects.toThrow('away');
});

test('a cell with projects cannot be removed, and a project is in one cell', async () => {
  const { id, apiKey } = await project('eu');
  await expect(db.query(sql('', "delete from cells where name = 'eu'"))).rejects.toThrow('foreign key');
  await expect(assignToCell(db, { id, apiKey, cell: 'us' })).rejects.toThrow('duplicate key');
});

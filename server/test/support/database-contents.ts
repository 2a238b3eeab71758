import type pg from 'pg';

/** The number of rows of each table, and a checksum of their text. */
export async function databaseContents(
  client: pg.Client,
): Promise<Record<string, { count: number; sum: string }>> {
  // The transaction ids of rows differ between servers, and webhooks restart at a slightly older event.
  const tables = await client.query<{ name: string; columns: string }>(
    `select table_name as name,
      string_agg(quote_ident(column_name), ', ' order by ordinal_position) as columns
    from information_schema.columns
    where table_schema = 'public' and table_name not in ('migrations', 'sealing_key')
      and table_name !~ '^(project_moves|leaving_projects|changed_rows|arriving_.*)$'
      and column_default is distinct from 'pg_current_xact_id()' and column_name <> 'feed_id'
      -- unlogged tables are not in a backup, and partitions are read with their table
      and (select relpersistence = 'p' and not relispartition from pg_class where oid = table_name::regclass)
    group by table_name
    order by table_name`,
  );
  const found: Record<string, { count: number; sum: string }> = {};
  for (const { name, columns } of tables.rows) {
    const { rows } = await client.query<{ count: number; sum: string }>(
      `select count(*)::int as count,
        md5(coalesce(string_agg(md5(t::text), '' order by md5(t::text)), '')) as sum
      from (select ${columns} from ${name}) t`,
    );
    found[name] = rows[0] ?? { count: -1, sum: '' };
  }
  return found;
}

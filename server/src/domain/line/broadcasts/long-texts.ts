import { type Queryable, sql } from '../../../db/client.ts';

// The driver decodes a row in one turn of the event loop: 20 MB block it for 100 ms.
const PART_BYTES = 1024 * 1024;
/** Longer packed texts are read in parts. */
export const LONG_FROM_BYTES = PART_BYTES;

/** The packed texts of a broadcast, each in parts. */
export interface LongTexts {
  category: string | null;
  topic: string | null;
  message: readonly Buffer[];
  overrides: readonly Buffer[] | null;
  inApp: readonly Buffer[] | null;
}

/** Reads the texts of a broadcast that may be long; undefined if it does not exist. */
export async function readLongTexts(db: Queryable, id: string): Promise<LongTexts | undefined> {
  const rows = await db.query<{
    category: string | null;
    topic: string | null;
    message: Buffer;
    overrides: Buffer | null;
    in_app: Buffer | null;
  }>(selectTexts, [id]);
  const [first] = rows;
  if (first === undefined) return undefined;
  const { category, topic } = first;
  const partsOf = (column: 'message' | 'overrides' | 'in_app') =>
    rows.flatMap((row) => (row[column]?.length ? row[column] : []));
  return {
    category,
    topic,
    message: partsOf('message'),
    overrides: first.overrides && partsOf('overrides'),
    inApp: first.in_app && partsOf('in_app'),
  };
}

/** SQL: a part of a column, in a statement with `PARTS`. */
export const partOf = (column: string) =>
  `substring(${column} from part * ${PART_BYTES} + 1 for ${PART_BYTES}) as ${column}`;

/** SQL: the bytes of the longest of these columns. */
export const lengthOfLongest = (...columns: string[]) =>
  `greatest(${columns.map((column) => `octet_length(${column})`).join(', ')})`;

/** SQL: a row for each part of the longest of these columns. */
export const partsOf = (...columns: string[]) =>
  `generate_series(0, (${lengthOfLongest(...columns)} - 1) / ${PART_BYTES}) as part`;

// Primary key.
const selectTexts = sql(
  'select_long_texts',
  `select category, topic, ${partOf('message')}, ${partOf('overrides')}, ${partOf('in_app')}
  from broadcasts, ${partsOf('message', 'overrides', 'in_app')}
  where id = $1
  order by part`,
);

// Migrates a database in a process of its own, which a test kills: argv has the URL and a JSON list of the
// migrations to apply after those of this release, each with its file name and its text.

import pg from 'pg';
import { migrate } from '../../src/db/migrate.ts';
import { migrations, parseMigration } from '../../src/db/migrations.ts';

const [url = '', added = '[]'] = process.argv.slice(2);
const known = [
  ...migrations(),
  ...(JSON.parse(added) as { file: string; text: string }[]).map(({ file, text }) =>
    parseMigration(file, text),
  ),
];
const client = new pg.Client({ connectionString: url });
await client.connect();
console.log('connected');
await migrate(client, { known });
await client.end();

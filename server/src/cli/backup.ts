import { readConfig } from '../config.ts';
import { backupToFile } from '../db/backup.ts';
import { print } from './output.ts';
import { withConnection } from './with-connection.ts';

/** `belfry backup`: also while the server runs. */
export async function backupCommand(file: string): Promise<void> {
  const { rows, schema } = await withConnection(file, (connection) => backupToFile({ connection }, file));
  print(`${file} holds the whole database: ${rows} rows, schema ${schema}.`);
  const { SECRET_KEY, DATA_DIR } = readConfig();
  const key = SECRET_KEY.length > 0 ? 'SECRET_KEY' : `${DATA_DIR}/secret.key`;
  print(`Keep ${key} too, elsewhere: the secrets in the backup are sealed with it.`);
}

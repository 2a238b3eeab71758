// Writes the part of the SDK that is made from openapi.json. With --check it only compares. Run by
// `npm run generate` and `npm run lint`.
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { ApiDocument } from './document.ts';
import { sdkFiles } from './files.ts';

const root = fileURLToPath(new URL('../../', import.meta.url));
const isCheck = process.argv.includes('--check');

const document = JSON.parse(readFileSync(join(root, 'openapi.json'), 'utf8')) as ApiDocument;
for (const [path, text] of Object.entries(await sdkFiles(document))) {
  if (readFileSync(join(root, path), 'utf8') === text) continue;
  console.log(isCheck ? `${path} is out of date: run "npm run generate"` : path);
  if (isCheck) process.exitCode = 1;
  else writeFileSync(join(root, path), text);
}

// Fails when a text of the repository links to a file, or to a heading of one, that is not there.
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { root } from './runtime.mjs';

const NOT_OURS = new Set(['node_modules', 'dist', 'data']);

const texts = textsBelow(root);
const broken = texts.flatMap((file) => linksOf(file).filter((link) => !leadsSomewhere(file, link)));
process.exitCode = broken.length > 0 || texts.length === 0 ? 1 : 0;

/** Every Markdown file that belongs to the repository. */
function textsBelow(folder) {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name);
    if (entry.isDirectory())
      return entry.name.startsWith('.') || NOT_OURS.has(entry.name) ? [] : textsBelow(path);
    return entry.name.endsWith('.md') ? [path] : [];
  });
}

/** The links within the repository, outside of code. */
function linksOf(file) {
  const prose = readFileSync(file, 'utf8')
    .replaceAll(/^ *```.*?^ *```/gms, '')
    .replaceAll(/`[^`\n]*`/g, 'code');
  return [...prose.matchAll(/\]\(([^)\s]+)\)|^\[[^\]]+\]: (\S+)/gm)]
    .map(([, link, defined]) => link ?? defined)
    .filter((link) => !/^[a-z]+:/.test(link));
}

function leadsSomewhere(file, link) {
  const [path, heading] = link.split('#');
  const target = path === '' ? file : join(dirname(file), path);
  if (existsSync(target) && (heading === undefined || headingsOf(target).includes(heading))) return true;
  console.error(`${relative(root, file)}: ${link} leads nowhere`);
  return false;
}

/** The names by which a page's headings can be linked to. */
function headingsOf(file) {
  return [...readFileSync(file, 'utf8').matchAll(/^#+ (.*)$/gm)].map(([, heading]) =>
    heading
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N}\- _]/gu, '')
      .replaceAll(' ', '-'),
  );
}

// Checks that the links between Markdown files lead to existing files and headings.
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { root } from './runtime.mjs';

const SKIPPED = new Set(['node_modules', 'dist', 'data']);

const texts = textsBelow(root);
const broken = texts.flatMap((file) => linksOf(file).filter((link) => !isValid(file, link)));
process.exitCode = broken.length > 0 || texts.length === 0 ? 1 : 0;

/** Every Markdown file that belongs to the repository. */
function textsBelow(folder) {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name);
    if (entry.isDirectory())
      return entry.name.startsWith('.') || SKIPPED.has(entry.name) ? [] : textsBelow(path);
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

function isValid(file, link) {
  const [path, heading] = link.split('#');
  const target = path === '' ? file : join(dirname(file), path);
  if (existsSync(target) && (heading === undefined || headingsOf(target).includes(heading))) return true;
  console.error(`${relative(root, file)}: ${link} does not exist`);
  return false;
}

/** The anchors of a page's headings. */
function headingsOf(file) {
  return [...readFileSync(file, 'utf8').matchAll(/^#+ (.*)$/gm)].map(([, heading]) =>
    heading
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N}\- _]/gu, '')
      .replaceAll(' ', '-'),
  );
}

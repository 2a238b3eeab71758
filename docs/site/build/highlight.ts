import { createRequire } from 'node:module';

/** The part of highlight.js that is used here. */
interface Highlighter {
  getLanguage(name: string): object | undefined;
  highlight(code: string, options: { language: string }): { value: string };
  registerAliases(alias: string, options: { languageName: string }): void;
  registerLanguage(name: string, definition: object): void;
}

// By `require`, because an import brings its types, and with them those of a browser, into the server.
const require = createRequire(import.meta.url);
const highlighter: Highlighter = require('highlight.js/lib/common');
highlighter.registerLanguage('http', require('highlight.js/lib/languages/http'));
highlighter.registerAliases('vue', { languageName: 'xml' });

/**
 * Returns code as HTML in which spans have classes such as `hljs-string`; `site.css` has their colours.
 * Returns undefined if the language is unknown.
 */
export function highlight(code: string, language: string): string | undefined {
  if (highlighter.getLanguage(language) === undefined) return undefined;
  return highlighter.highlight(code, { language }).value;
}

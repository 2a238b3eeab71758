import type { Markdown } from '@11ty/eleventy';
import { anchorOf } from './headings.ts';
import { highlight } from './highlight.ts';

/** Renders links for the site, headings with anchors, diagrams, coloured code, and blocks that scroll. */
export function amendMarkdown(markdown: Markdown, linkOf: (link: string, from: string) => string): void {
  const { rules } = markdown.renderer;
  const { escapeHtml } = markdown.utils;

  rules.link_open = (tokens, index, options, { file }, self) => {
    const token = tokens[index];
    token?.attrSet('href', linkOf(token.attrGet('href') ?? '', file));
    return self.renderToken(tokens, index, options);
  };

  const isTitle = (tag: string | undefined) => tag === 'h1';
  rules.heading_open = (tokens, index) => {
    const { tag } = tokens[index] ?? {};
    if (isTitle(tag)) return '<h1>';
    const id = anchorOf(plainText(tokens[index + 1]?.children ?? []));
    return `<${tag} id="${escapeHtml(id)}"><a class="anchor" href="#${escapeHtml(id)}">`;
  };
  rules.heading_close = (tokens, index) => {
    const { tag } = tokens[index] ?? {};
    return isTitle(tag) ? '</h1>\n' : `</a></${tag}>\n`;
  };

  rules.fence = (tokens, index) => {
    const { info = '', content = '' } = tokens[index] ?? {};
    const language = info.trim().split(/\s/, 1)[0] ?? '';
    if (language === 'mermaid') return `<pre class="mermaid">${escapeHtml(content)}</pre>\n`;
    const text = highlight(content, language) ?? escapeHtml(content);
    const code = `<code class="language-${escapeHtml(language)}">${text}</code>`;
    return `<div class="code"><pre>${code}</pre></div>\n`;
  };

  rules.table_open = () => '<div class="scroll" tabindex="0"><table>\n';
  rules.table_close = () => '</table></div>\n';
}

function plainText(tokens: readonly { content: string }[]): string {
  return tokens.map(({ content }) => content).join('');
}

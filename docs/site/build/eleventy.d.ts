// The part of Eleventy that is used here: the package has no types.
declare module '@11ty/eleventy' {
  interface MarkdownToken {
    type: string;
    tag: string;
    info: string;
    content: string;
    children: MarkdownToken[] | null;
    attrGet(name: string): string | null;
    attrSet(name: string, value: string): void;
  }

  type RenderRule = (
    tokens: MarkdownToken[],
    index: number,
    options: object,
    env: { file: string },
    self: { renderToken(tokens: MarkdownToken[], index: number, options: object): string },
  ) => string;

  export interface Markdown {
    renderer: { rules: Record<string, RenderRule | undefined> };
    utils: { escapeHtml(text: string): string };
  }

  interface Config {
    addFilter(name: string, filter: (argument: string) => unknown): void;
    addGlobalData(name: string, value: unknown): void;
    addTemplate(path: string, content: string, data: object): void;
    amendLibrary(name: 'md', change: (markdown: Markdown) => void): void;
  }

  export class Eleventy {
    constructor(
      input: string,
      output: string,
      options: { quietMode: boolean; configPath: false; config: (config: Config) => void },
    );
    toJSON(): Promise<{ url: string; content: string }[]>;
  }
}

/** A page of the reference. */
export function page(title: string, introduction: string, body: string): string {
  return `# ${title}\n\n<!-- Made by \`npm run generate\`: change the source, not this page. -->\n\n${introduction}\n\n${body}`;
}

/** A table; cells are Markdown. */
export function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]) =>
    `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |\n`;
  return line(head) + line(head.map(() => '---')) + rows.map(line).join('');
}

/** A word of the machine's. */
export function code(text: string): string {
  return `\`${text}\``;
}

/** Prints lines on standard output. A reader that has seen enough (`| head`) ends the process, as it does with any program. */
export function print(text: string): void {
  if (!watched) {
    watched = true;
    process.stdout.on('error', (error: NodeJS.ErrnoException) => {
      if (error.code !== 'EPIPE') throw error;
      process.exit();
    });
  }
  process.stdout.write(`${text}\n`);
}

let watched = false;

export function printJson(value: unknown): void {
  print(JSON.stringify(value, null, 2));
}

/** Names and values, the values one below the other. */
export function printMembers(members: Record<string, unknown>): void {
  const width = Math.max(...Object.keys(members).map((name) => name.length));
  for (const [name, value] of Object.entries(members)) print(`${name.padEnd(width)}  ${value ?? '-'}`);
}

/** Records as columns, with the names of the first one's members as heads; `none` where there are no records. */
export function printTable(rows: readonly Record<string, string>[], none: string): void {
  const [first] = rows;
  if (first === undefined) {
    print(none);
    return;
  }
  const names = Object.keys(first);
  const lines = [
    names.map((name) => name.toUpperCase()),
    ...rows.map((row) => names.map((name) => row[name] ?? '')),
  ];
  const widths = names.map((_, column) => Math.max(...lines.map((line) => line[column]?.length ?? 0)));
  for (const line of lines)
    print(
      line
        .map((cell, column) => cell.padEnd(widths[column] ?? 0))
        .join('  ')
        .trimEnd(),
    );
}

/** Text that somebody else wrote, safe for a terminal: without the control characters that could move its cursor or rewrite its lines. */
export function plain(text: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is being removed
  return text.replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g, '');
}

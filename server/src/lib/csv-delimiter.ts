/**
 * Returns the delimiter of a CSV header: the first one outside of quotes. In some locales, spreadsheets write
 * semicolons.
 */
export function csvDelimiter(header: string): string {
  return /[,;\t]/.exec(header.replace(/"[^"]*"/g, ''))?.[0] ?? ',';
}

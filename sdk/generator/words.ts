/** The words of `saveWebPushToken`, `Web push tokens` or `web_push`, in lower case. */
export function wordsOf(text: string): string[] {
  return text
    .replace(/([a-z0-9])([A-Z])/g, '$1 $2')
    .split(/[^A-Za-z0-9]+/)
    .filter((word) => word !== '')
    .map((word) => word.toLowerCase());
}

export function camelCase(words: readonly string[]): string {
  const pascal = pascalCase(words);
  return pascal.charAt(0).toLowerCase() + pascal.slice(1);
}

export function pascalCase(words: readonly string[]): string {
  return words.map((word) => word.charAt(0).toUpperCase() + word.slice(1)).join('');
}

/** `categories` → `category`, `statuses` → `status`; other words stay as they are. */
export function singular(word: string): string {
  if (/ies$/.test(word)) return word.replace(/ies$/, 'y');
  if (/(s|x|ch|sh)es$/.test(word)) return word.replace(/es$/, '');
  return /[^su]s$/.test(word) ? word.slice(0, -1) : word;
}

/** The words of the first list that all lists have. */
export function commonWords([first = [], ...others]: readonly (readonly string[])[]): string[] {
  return first.filter((word) => others.every((list) => list.includes(word)));
}

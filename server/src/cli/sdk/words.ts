/** `saveWebPushToken`, `Web push tokens` and `web_push` as the words they are made of, in lower case. */
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

/** `categories` → `category`, `statuses` → `status`; a word that is no plural as it is. */
export function singular(word: string): string {
  if (/ies$/.test(word)) return word.replace(/ies$/, 'y');
  if (/(s|x|ch|sh)es$/.test(word)) return word.replace(/es$/, '');
  return /[^su]s$/.test(word) ? word.slice(0, -1) : word;
}

/** What a member is called where it is one: `recipients` is a list of `recipient`. */
export function wordsOfMember(key: string, isList: boolean): string[] {
  const words = wordsOf(key);
  return isList ? words.with(-1, singular(words.at(-1) ?? '')) : words;
}

/** The longest list of words that all of these lists have, in this order. */
export function commonWords(lists: readonly (readonly string[])[]): string[] {
  const [first = [], ...others] = lists;
  return others.reduce<string[]>((common, list) => longestCommon(common, list), [...first]);
}

function longestCommon(a: readonly string[], b: readonly string[]): string[] {
  let row: string[][] = Array.from({ length: b.length + 1 }, () => []);
  for (const word of a) {
    const next: string[][] = [[]];
    for (const [index, other] of b.entries()) {
      const [without = [], before = [], left = []] = [row[index + 1], row[index], next[index]];
      if (word === other) next.push([...before, word]);
      else next.push(without.length >= left.length ? without : left);
    }
    row = next;
  }
  return row.at(-1) ?? [];
}

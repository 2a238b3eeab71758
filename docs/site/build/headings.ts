/** The anchor of a heading, as Git hosts name it. */
export function anchorOf(heading: string): string {
  return heading
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}\- _]/gu, '')
    .replaceAll(' ', '-');
}

/** Returns the headings of a page for its outline. */
export function outlineOf(html: string): { level: string; id: string; html: string }[] {
  return [...html.matchAll(/<h([23]) id="([^"]+)"><a [^>]*>(.*?)<\/a><\/h\1>/g)].map(
    ([, level = '', id = '', inner = '']) => ({ level, id, html: inner }),
  );
}

/** A part of a page, for the search. */
export interface Section {
  title: string;
  page: string;
  text: string;
  href: string;
}

/** Splits a page at its headings. */
export function sectionsOf(html: string, page: { title: string; href: string }): Section[] {
  const parts = html.split(/(?=<h[234] id=")/);
  return parts.map((part) => {
    const [heading, id, inner] = /^<h[234] id="([^"]+)">(.*?)<\/h[234]>/s.exec(part) ?? [];
    const text = textOf(part.slice(heading?.length ?? 0).replace(/<h1.*?<\/h1>/s, ''));
    if (id === undefined) return { title: page.title, page: '', text, href: page.href };
    return { title: textOf(inner ?? ''), page: page.title, text, href: `${page.href}#${id}` };
  });
}

const ENTITIES: Record<string, string> = { lt: '<', gt: '>', amp: '&', quot: '"', '#x27': "'" };

function textOf(html: string): string {
  return html
    .replace(/<pre class="mermaid">.*?<\/pre>/gs, '')
    .replace(/<\/(p|li|td|th|pre|tr)>|<br>/g, ' ')
    .replace(/<[^>]+>/g, '')
    .replace(/&(lt|gt|amp|quot|#x27);/g, (_, name: string) => ENTITIES[name] ?? '')
    .replace(/\s+/g, ' ')
    .trim();
}

// The guides: the menu of small screens, copy buttons, diagrams and search.
const root = document.documentElement;
const find = (selector) => document.querySelector(selector);

// The API reference was here once, and links into it still lead here.
if (root.dataset.moved && /^#(?:tag|description|model|schema)s?(?:\/|$)/.test(location.hash))
  location.replace(root.dataset.moved + location.hash);

const menu = find('#menu');
menu?.addEventListener('click', () => {
  const isOpen = root.classList.toggle('menu-open');
  menu.setAttribute('aria-expanded', String(isOpen));
});
find('#sidebar [aria-current]')?.scrollIntoView({ block: 'nearest' });

for (const block of document.querySelectorAll('article pre:not(.mermaid)')) {
  block.tabIndex = 0; // long lines scroll
  const button = document.createElement('button');
  Object.assign(button, { type: 'button', className: 'copy', textContent: 'Copy' });
  button.addEventListener('click', async () => {
    await navigator.clipboard.writeText(block.querySelector('code').textContent);
    button.textContent = 'Copied';
    setTimeout(() => {
      button.textContent = 'Copy';
    }, 2_000);
  });
  block.before(button);
}

/** Draws the diagrams in the colours of the page. */
async function drawDiagrams(blocks) {
  const sources = [...blocks].map((block) => block.textContent);
  await loadScript(root.dataset.mermaid);
  const draw = async () => {
    const style = getComputedStyle(root);
    const [page, card, text, line] = ['page', 'card', 'text', 'soft'].map((name) =>
      style.getPropertyValue(`--${name}`),
    );
    globalThis.mermaid.initialize({
      startOnLoad: false,
      securityLevel: 'strict',
      // A wide diagram scrolls: its labels would be too small to read.
      flowchart: { useMaxWidth: false, nodeSpacing: 30 },
      state: { useMaxWidth: false },
      theme: 'base',
      themeVariables: {
        background: page,
        primaryColor: card,
        primaryTextColor: text,
        primaryBorderColor: line,
        lineColor: line,
        textColor: text,
        edgeLabelBackground: page,
      },
    });
    for (const [index, block] of [...blocks].entries()) {
      const { svg } = await globalThis.mermaid.render(`diagram-${index}`, sources[index]);
      block.innerHTML = svg;
      block.classList.add('drawn');
      block.tabIndex = 0;
    }
  };
  await draw();
  document.addEventListener('theme', draw);
}

function loadScript(src) {
  return new Promise((resolve, reject) => {
    document.head.append(
      Object.assign(document.createElement('script'), { src, onload: resolve, onerror: reject }),
    );
  });
}

const diagrams = document.querySelectorAll('pre.mermaid');
if (diagrams.length > 0) void drawDiagrams(diagrams);

const finder = find('#finder');
if (finder) startSearch(finder);

function startSearch(dialog) {
  const [input, list, status] = ['input', '#found', 'p'].map((selector) => dialog.querySelector(selector));
  let index;
  let selected = 0;

  function open() {
    if (dialog.open) return;
    dialog.showModal();
    input.select();
    index ??= loadIndex();
    void show();
  }

  async function show() {
    const query = input.value.trim();
    const results = query === '' ? [] : (await index).search(query).slice(0, 12);
    if (input.value.trim() !== query) return; // there is a newer one
    list.replaceChildren(...results.map((result, at) => option(result, at, query)));
    status.textContent = query === '' || results.length > 0 ? '' : `No results for “${query}”`;
    input.setAttribute('aria-expanded', String(results.length > 0));
    select(0);
  }

  function select(at) {
    const options = [...list.children];
    selected = options.length === 0 ? 0 : (at + options.length) % options.length;
    for (const [index, one] of options.entries())
      one.setAttribute('aria-selected', String(index === selected));
    options[selected]?.scrollIntoView({ block: 'nearest' });
    if (options.length === 0) input.removeAttribute('aria-activedescendant');
    else input.setAttribute('aria-activedescendant', options[selected].id);
  }

  find('#search').addEventListener('click', open);
  document.addEventListener('keydown', (event) => {
    const isTyping = event.target.closest('input, textarea, select, [contenteditable]');
    if ((event.key === '/' && !isTyping) || (event.key === 'k' && (event.ctrlKey || event.metaKey))) {
      event.preventDefault();
      open();
    }
  });
  input.addEventListener('input', show);
  input.addEventListener('keydown', (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) select(selected + step);
    else if (event.key === 'Enter') list.children[selected]?.click();
    else if (event.key === 'Escape')
      dialog.close(); // browsers only clear a search field
    else return;
    event.preventDefault();
  });
  dialog.addEventListener('click', (event) => {
    if (event.target === dialog || event.target.closest('a')) dialog.close();
  });
}

async function loadIndex() {
  const [{ default: MiniSearch }, response] = await Promise.all([
    import(root.dataset.minisearch),
    fetch(root.dataset.search),
  ]);
  const search = new MiniSearch({
    fields: ['title', 'page', 'text'],
    storeFields: ['title', 'page', 'text', 'href'],
    searchOptions: { boost: { title: 4, page: 2 }, prefix: true, fuzzy: 0.15, combineWith: 'AND' },
  });
  search.addAll((await response.json()).map((section, id) => ({ id, ...section })));
  return search;
}

function option({ title, page, text, href, terms }, at, query) {
  const link = document.createElement('a');
  Object.assign(link, { href, id: `found-${at}`, role: 'option', tabIndex: -1 });
  const lines = [
    ['strong', title],
    ['small', page],
    ['span', excerpt(text, terms, query)],
  ];
  for (const [name, content] of lines) {
    const line = document.createElement(name);
    line.append(...marked(content, terms));
    link.append(line);
  }
  return link;
}

/** The part of a text around the first match. */
function excerpt(text, terms, query) {
  const lower = text.toLowerCase();
  const places = [query.toLowerCase(), ...terms].map((term) => lower.indexOf(term)).filter((at) => at >= 0);
  const start = Math.max(0, (places[0] ?? 0) - 50);
  return `${start > 0 ? '…' : ''}${text.slice(start, start + 150)}`;
}

/** A text as nodes, with the terms in `mark` elements. */
function marked(text, terms) {
  const escaped = terms.map((term) => term.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'));
  if (escaped.length === 0) return [text];
  return text.split(new RegExp(`(${escaped.join('|')})`, 'gi')).map((part, at) => {
    if (at % 2 === 0) return part;
    return Object.assign(document.createElement('mark'), { textContent: part });
  });
}

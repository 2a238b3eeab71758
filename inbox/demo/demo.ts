// The page /demo: a form that sends a broadcast, and the inboxes in which it arrives.
import '@belfry/inbox/element';
import { BelfryError, type Broadcast, ProjectClient } from '@belfry/sdk';

interface Session {
  project_jwt: string;
  users: { external_id: string; name: string; user_jwt: string }[];
}

const baseUrl = new URL('v2', location.href).href;
const RENEW_MS = 5 * 60_000;

/** The credentials of the page, which the server issues again before they expire. */
let session: { of: Promise<Session>; atMs: number } | undefined;
function currentSession(): Promise<Session> {
  if (session === undefined || Date.now() > session.atMs + RENEW_MS) {
    const of = fetch('demo/session', { method: 'POST' }).then((response) => {
      if (!response.ok) throw new Error(`The demo has no credentials: HTTP ${response.status}`);
      return response.json() as Promise<Session>;
    });
    session = { of, atMs: Date.now() };
    of.catch(() => {
      session = undefined;
    });
  }
  return session.of;
}

const belfry = new ProjectClient({ baseUrl, token: async () => (await currentSession()).project_jwt });

type Attributes = Record<string, string | boolean | EventListener>;

/** Creates an element. Members that start with `on` are listeners, others are attributes. */
function element<Name extends keyof HTMLElementTagNameMap>(
  name: Name,
  attributes: Attributes = {},
  ...children: (Node | string)[]
): HTMLElementTagNameMap[Name] {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes))
    if (typeof value === 'function') made.addEventListener(key.slice(2), value);
    else if (value === true) made.setAttribute(key, '');
    else if (value !== false) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

const DEVICES = [
  { name: "Ada's laptop", user: 'ada', kind: 'laptop' },
  { name: "Ada's phone", user: 'ada', kind: 'phone' },
  { name: "Ben's phone", user: 'ben', kind: 'phone' },
] as const;

function device({ name, user, kind }: (typeof DEVICES)[number]): HTMLElement {
  const inbox = document.createElement('belfry-inbox') as HTMLElement & { token: () => Promise<string> };
  inbox.setAttribute('base-url', baseUrl);
  inbox.setAttribute('mode', 'page');
  inbox.token = async () => {
    const { users } = await currentSession();
    return users.find(({ external_id }) => external_id === user)?.user_jwt ?? '';
  };
  return element(
    'section',
    { class: `device ${kind}`, 'aria-label': name },
    element('h2', {}, name),
    element('div', { class: 'screen' }, inbox),
  );
}

const SAMPLES = [
  {
    title: 'Your order is on its way',
    content: 'It arrives <b>tomorrow</b> before noon.',
    category: 'orders',
  },
  {
    title: 'Cleo commented on “Launch plan”',
    content: 'Can we move the date to Friday?',
    category: 'comments',
  },
  {
    title: 'New sign-in from Lisbon',
    content: 'If this was not you, change your password.',
    category: 'security',
  },
] as const;

const CHANNELS = {
  in_app: 'Inbox',
  email: 'E-mail',
  sms: 'SMS',
  mobile_push: 'Mobile push',
  web_push: 'Web push',
};
type Channel = keyof typeof CHANNELS;

function page(): void {
  const title = element('input', { name: 'title', required: true, maxlength: '255' });
  const content = element('textarea', { name: 'content', rows: '3' });
  const category = element('input', {
    name: 'category',
    list: 'categories',
    pattern: '[A-Za-z0-9_\\/.:\\-]+',
  });
  const channels = Object.entries(CHANNELS).map(([name, label]) => ({
    name: name as Channel,
    box: element('input', { type: 'checkbox', name, checked: name === 'in_app' }),
    label,
  }));
  const result = element('p', { role: 'status' });
  const curl = element('code');
  const button = element('button', { type: 'submit' }, 'Send');
  let sample = -1;

  const body = () => ({
    title: title.value,
    ...(content.value === '' ? {} : { content: content.value }),
    ...(category.value === '' ? {} : { category: category.value }),
    recipients: [{ external_id: 'ada' }, { external_id: 'ben' }],
  });

  const chosenChannels = () => channels.flatMap(({ name, box }) => (box.checked ? [name] : []));

  const showCurl = async () => {
    choices.disabled = category.value === '';
    const { project_jwt } = await currentSession();
    const config = configOf(category.value, chosenChannels());
    const requests = config ? [curlOf('PUT', '/channels', config)] : [];
    requests.push(curlOf('POST', '/broadcasts', body()));
    curl.textContent = [`TOKEN='${project_jwt}'`, ...requests].join('\n\n');
  };

  /** Shows the next sample, unless the user wrote a title. */
  const fill = () => {
    if (title.value !== (SAMPLES[sample]?.title ?? '')) return;
    sample = (sample + 1) % SAMPLES.length;
    const next = SAMPLES[sample];
    if (next === undefined) return;
    title.value = next.title;
    content.value = next.content;
    category.value = next.category;
    void showCurl();
  };

  const send = async (event: Event) => {
    event.preventDefault();
    if (button.ariaDisabled === 'true') return;
    button.ariaDisabled = 'true'; // a disabled one would lose the focus
    result.textContent = '';
    const given = body();
    const config = configOf(category.value, chosenChannels());
    try {
      if (config !== undefined) await belfry.categoryDelivery.saveConfig(config);
      const sentMs = performance.now();
      const broadcast = await belfry.broadcasts.create(given);
      result.textContent = `“${given.title}” was accepted in ${Math.round(performance.now() - sentMs)} ms. `;
      result.append(await outcome(broadcast));
      fill();
    } catch (error) {
      result.textContent = error instanceof BelfryError ? error.message : String(error);
    } finally {
      button.ariaDisabled = 'false';
    }
  };

  const choices = element(
    'fieldset',
    {},
    element('legend', {}, 'Channels of the category'),
    ...channels.map(({ box, label }) => element('label', { class: 'choice' }, box, label)),
    element('p', { class: 'hint' }, 'Without a category, every channel that is set up is used.'),
  );
  const form = element(
    'form',
    { onsubmit: (event) => void send(event), oninput: () => void showCurl() },
    element('label', {}, 'Title', title),
    element('label', {}, 'Content', content),
    element('label', {}, 'Category', category),
    element(
      'datalist',
      { id: 'categories' },
      ...SAMPLES.map((one) => element('option', { value: one.category })),
    ),
    choices,
    button,
    result,
  );
  const copy = element('button', { type: 'button', class: 'quiet' }, 'Copy');
  copy.addEventListener('click', () => {
    void navigator.clipboard.writeText(curl.textContent ?? '').then(() => {
      copy.textContent = 'Copied';
    });
  });

  document.body.append(
    element(
      'header',
      {},
      element('h1', {}, 'Belfry'),
      element(
        'p',
        {},
        'Send a notification, and watch it arrive. Read it on one device, and it changes on the other.',
      ),
      element('nav', {}, element('a', { href: 'docs' }, 'Documentation')),
    ),
    element(
      'main',
      {},
      element(
        'section',
        { class: 'sender', 'aria-label': 'Send a broadcast' },
        element('h2', {}, 'Send a broadcast'),
        form,
        element('h2', {}, 'The same with curl'),
        element('pre', { tabindex: '0' }, curl),
        copy,
      ),
      element('div', { class: 'devices' }, ...DEVICES.map(device)),
    ),
  );
  fill();
}

type ConfigOfCategory = Parameters<typeof belfry.categoryDelivery.saveConfig>[0];

/** The config of a category; undefined if there is none. */
function configOf(category: string, channels: readonly Channel[]): ConfigOfCategory | undefined {
  if (category === '') return undefined;
  return { key: category, channels: channels.map((channel) => ({ channel })) };
}

/** A request as a command, with the token in a variable. */
function curlOf(method: string, path: string, body: object): string {
  const members = Object.entries(body).map(([name, value]) => `"${name}": ${JSON.stringify(value)}`);
  const json = `{\n    ${members.join(',\n    ')}\n  }`.replaceAll("'", "'\\''");
  return (
    `curl -X ${method} '${baseUrl}${path}' \\\n  -H "Authorization: Bearer $TOKEN" \\\n` +
    `  -H 'Content-Type: application/json' \\\n  -d '${json}'`
  );
}

/** Resolves to the states of the deliveries, as soon as each was attempted. */
async function outcome({ id }: Broadcast): Promise<string> {
  for (let waitMs = 50; waitMs < 5_000; waitMs *= 2) {
    const { status } = await belfry.broadcasts.get(id);
    if (status.status === 'processed') break;
    await new Promise((resolve) => setTimeout(resolve, waitMs));
  }
  const counts = new Map<string, number>();
  for await (const { channel, state } of belfry.broadcasts.deliveries.list(id)) {
    const what = `${CHANNELS[channel as Channel] ?? channel} ${state}`;
    counts.set(what, (counts.get(what) ?? 0) + 1);
  }
  return [...counts].map(([what, count]) => `${what}: ${count}`).join(', ') || 'No channel of it is set up.';
}

page();

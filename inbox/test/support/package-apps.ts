// Apps that use the packed packages. Each shows the same, which package.test.ts expects.

const VANILLA = `
import { createInbox } from '@belfry/inbox';
import type { BelfryInbox } from '@belfry/inbox/element';
import '@belfry/inbox/element';

declare const settings: { baseUrl: string; token: string };

const inbox = createInbox(settings);
const list = inbox.list();
const counts = document.createElement('p');
counts.id = 'counts';
const show = () => {
  const titles = list.getSnapshot().notifications.map(({ title }) => title);
  counts.textContent = inbox.getSnapshot().counts.unread + ' unread: ' + titles.join(', ');
};
inbox.subscribe(show);
list.subscribe(show);
const button = document.createElement('button');
button.textContent = 'Read all of them';
button.onclick = () => void inbox.markAllRead();
const element: BelfryInbox = document.createElement('belfry-inbox');
element.mode = 'embedded';
element.inbox = inbox;
element.addEventListener('belfry-click', ({ detail }) => console.log(detail.url.length, detail.action));
element.addEventListener('belfry-change', ({ detail }) => console.log(detail.unread));
document.querySelector('#app')?.append(counts, button, element);
`;

const REACT = `
import { BelfryInbox, InboxProvider, useCounts, useInbox, useNotifications } from '@belfry/inbox/react';
import { StrictMode } from 'react';
// @ts-expect-error the test has no types of react-dom
import { createRoot } from 'react-dom/client';

declare const settings: { baseUrl: string; token: string };

function Counts() {
  const { unread } = useCounts();
  const { notifications } = useNotifications();
  const titles = notifications.map(({ title }) => title);
  const inbox = useInbox();
  return (
    <>
      <p id="counts">{unread + ' unread: ' + titles.join(', ')}</p>
      <button onClick={() => inbox.markAllRead()}>Read all of them</button>
    </>
  );
}

createRoot(document.querySelector('#app')).render(
  <StrictMode>
    <InboxProvider {...settings}>
      <Counts />
      <BelfryInbox mode="embedded" onNew={({ detail }) => console.log(detail.notification.title)} />
    </InboxProvider>
  </StrictMode>,
);
`;

const VUE = `
import { BelfryInbox, provideInbox, useCounts, useInbox, useNotifications } from '@belfry/inbox/vue';
import { createApp, defineComponent, h } from 'vue';

declare const settings: { baseUrl: string; token: string };

const Counts = defineComponent(() => {
  const counts = useCounts();
  const { list } = useNotifications();
  const inbox = useInbox();
  return () => [
    h('p', { id: 'counts' }, [
      counts.value.unread + ' unread: ',
      list.value.notifications.map(({ title }) => title).join(', '),
    ]),
    h('button', { onClick: () => inbox.markAllRead() }, 'Read all of them'),
  ];
});

createApp(
  defineComponent(() => {
    provideInbox(settings);
    return () => [h(Counts), h(BelfryInbox, { mode: 'embedded' })];
  }),
).mount('#app');
`;

/** The inbox of a user, live. */
export const APPS = { vanilla: VANILLA, react: REACT, vue: VUE };

const REACT_HOOKS = `
import {
  BelfryInbox,
  InboxProvider,
  useInbox,
  useInboxState,
  useNewNotification,
  useNotifications,
  usePreferences,
  useWebPush,
} from '@belfry/inbox/react';
import { useState } from 'react';
// @ts-expect-error the test has no types of react-dom
import { createRoot } from 'react-dom/client';

declare const settings: { baseUrl: string; token: string };

function App() {
  const [token, setToken] = useState('not.valid');
  return (
    <>
      <button onClick={() => setToken(settings.token)}>Log in</button>
      <InboxProvider baseUrl={settings.baseUrl} token={token} pageSize={2}>
        <State />
        <List />
        <Preferences />
        <Element />
      </InboxProvider>
      <WebPush />
    </>
  );
}

function State() {
  const { connection, transport, error } = useInboxState();
  const inbox = useInbox();
  const [arrived, setArrived] = useState<string[]>([]);
  useNewNotification(({ title }) => setArrived([...arrived, title]));
  return (
    <>
      <p id="state">{connection} {transport}</p>
      <p id="error">{error?.message}</p>
      <p id="arrived">{arrived.join(', ')}</p>
      <button onClick={() => inbox.archive('unknown').catch(() => {})}>Fail</button>
    </>
  );
}

function List() {
  const [status, setStatus] = useState<'unread'>();
  const { notifications, hasMore, loadMore, refresh } = useNotifications({ status });
  return (
    <>
      <p id="list">{notifications.map(({ title }) => title).join(', ')}</p>
      {hasMore && <button onClick={loadMore}>More</button>}
      <button onClick={refresh}>Refresh</button>
      <button onClick={() => setStatus('unread')}>Only unread</button>
    </>
  );
}

function Preferences() {
  const { preferences, save, error } = usePreferences();
  if (!preferences) return <p>{error?.message}</p>;
  const orders = preferences.categories.find(({ key }) => key === 'orders');
  const email = orders?.channels.find(({ name }) => name === 'email');
  const change = (enabled: boolean) =>
    save({ categories: [{ key: 'orders', channels: [{ name: 'email', enabled }] }] });
  return (
    <label>
      <input type="checkbox" checked={email?.enabled} onChange={({ target }) => change(target.checked)} />
      Orders by e-mail
    </label>
  );
}

function Element() {
  const [isOpen, setOpen] = useState(false);
  const [events, setEvents] = useState<string[]>([]);
  const add = (event: string) => setEvents((before) => [...before, event]);
  return (
    <>
      <p id="events">{events.join(', ')}</p>
      <button onClick={() => setOpen(true)}>Open</button>
      <BelfryInbox
        className="own"
        locale="en"
        colorScheme="dark"
        mode={isOpen ? 'popover' : undefined}
        preferences="off"
        messages={{ title: isOpen ? 'Opened' : 'Closed' }}
        theme={{ header: { backgroundColor: 'rgb(1, 2, 3)' } }}
        open={isOpen}
        onOpen={() => add('open')}
        onClose={() => {
          add('close');
          setOpen(false);
        }}
        onNotificationClick={(event) => {
          event.preventDefault();
          const { url, action = '' } = event.detail;
          add('click ' + url + action);
        }}
        onNew={({ detail }) => add('new ' + detail.notification.title)}
        onChange={({ detail }) => add(detail.unread + ' unread')}
        onError={({ detail }) => add('error')}
      />
    </>
  );
}

function WebPush() {
  const { status, isBusy, error, enable, disable } = useWebPush(settings);
  return (
    <>
      <p id="push">{isBusy ? 'busy' : (error?.message ?? status)}</p>
      <button onClick={enable}>Turn on</button>
      <button onClick={disable}>Turn off</button>
    </>
  );
}

createRoot(document.querySelector('#app')).render(<App />);
`;

const VUE_HOOKS = `
import {
  BelfryInbox,
  provideInbox,
  useInbox,
  useInboxState,
  useNotifications,
  usePreferences,
  useWebPush,
} from '@belfry/inbox/vue';
import { createApp, defineComponent, h, onMounted, onUnmounted, ref } from 'vue';

declare const settings: { baseUrl: string; token: string };

const button = (text: string, onClick: () => unknown) => h('button', { onClick }, text);

const State = defineComponent(() => {
  const state = useInboxState();
  const inbox = useInbox();
  const arrived = ref<string[]>([]);
  let unsubscribe = () => {};
  onMounted(() => {
    unsubscribe = inbox.onNew(({ title }) => arrived.value.push(title));
  });
  onUnmounted(() => unsubscribe());
  return () => [
    h('p', { id: 'state' }, [state.value.connection, ' ', state.value.transport]),
    h('p', { id: 'error' }, state.value.error?.message),
    h('p', { id: 'arrived' }, arrived.value.join(', ')),
    button('Fail', () => inbox.archive('unknown').catch(() => {})),
  ];
});

const List = defineComponent(() => {
  const status = ref<'unread'>();
  const { list, loadMore, refresh } = useNotifications(() => ({ status: status.value }));
  return () => [
    h('p', { id: 'list' }, list.value.notifications.map(({ title }) => title).join(', ')),
    list.value.hasMore && button('More', loadMore),
    button('Refresh', refresh),
    button('Only unread', () => {
      status.value = 'unread';
    }),
  ];
});

const Preferences = defineComponent(() => {
  const { preferences, save } = usePreferences();
  const email = () =>
    preferences.value?.categories
      .find(({ key }) => key === 'orders')
      ?.channels.find(({ name }) => name === 'email');
  const change = (enabled: boolean) =>
    save({ categories: [{ key: 'orders', channels: [{ name: 'email', enabled }] }] });
  return () =>
    preferences.value &&
    h('label', [
      h('input', {
        type: 'checkbox',
        checked: email()?.enabled,
        onChange: ({ target }: Event) => change((target as HTMLInputElement).checked),
      }),
      'Orders by e-mail',
    ]);
});

const Element = defineComponent(() => {
  const isOpen = ref(false);
  const events = ref<string[]>([]);
  const add = (event: string) => events.value.push(event);
  return () => [
    h('p', { id: 'events' }, events.value.join(', ')),
    button('Open', () => {
      isOpen.value = true;
    }),
    h(BelfryInbox, {
      class: 'own',
      locale: 'en',
      colorScheme: 'dark',
      preferences: 'off',
      messages: { title: isOpen.value ? 'Opened' : 'Closed' },
      theme: { header: { backgroundColor: 'rgb(1, 2, 3)' } },
      open: (isOpen.value ? '' : false) as boolean, // as <BelfryInbox open> in a template
      onBelfryOpen: () => add('open'),
      onBelfryClose: () => {
        add('close');
        isOpen.value = false;
      },
      onBelfryClick: (event) => {
        event.preventDefault();
        add('click ' + event.detail.url);
      },
      onBelfryNew: ({ detail }) => add('new ' + detail.notification.title),
      onBelfryChange: ({ detail }) => add(detail.unread + ' unread'),
      onBelfryError: ({ detail }) => add('error'),
    }),
  ];
});

const WebPush = defineComponent(() => {
  const { state, enable, disable } = useWebPush(settings);
  return () => [
    h('p', { id: 'push' }, state.value.isBusy ? 'busy' : (state.value.error?.message ?? state.value.status)),
    button('Turn on', enable),
    button('Turn off', disable),
  ];
});

let token = 'not.valid';
const logIn = () => {
  token = settings.token;
};

createApp(
  defineComponent(() => {
    provideInbox({ ...settings, token: () => token, pageSize: 2 });
    return () => [button('Log in', logIn), h(State), h(List), h(Preferences), h(Element), h(WebPush)];
  }),
).mount('#app');
`;

/** Everything else that the bindings export. The token is not valid at first. */
export const HOOKS = { 'react-hooks': REACT_HOOKS, 'vue-hooks': VUE_HOOKS };

/** A program for a server. */
export const SERVER = `
import '@belfry/inbox/element';
import '@belfry/inbox/web-push/element';
import { createWebPush } from '@belfry/inbox/web-push';
import * as react from '@belfry/inbox/react';
import * as vue from '@belfry/inbox/vue';
import { createElement } from 'react';
import { renderToString } from 'react-dom/server';
import { createSSRApp, h } from 'vue';
import { renderToString as renderVue } from 'vue/server-renderer';

const options = { baseUrl: '/v2', token: 'none' }; // of the page, which a server does not know
const Unread = () => createElement('p', null, String(react.useCounts().unread));
const children = [createElement(Unread, { key: 1 }), createElement(react.BelfryInbox, { key: 2 })];
console.log(renderToString(createElement(react.InboxProvider, options, children)));
const app = createSSRApp({
  setup() {
    vue.provideInbox(options);
    return () => h('main', [h(Counts), h(vue.BelfryInbox)]);
  },
});
const Counts = {
  setup() {
    const counts = vue.useCounts();
    return () => h('p', String(counts.value.unread));
  },
};
console.log(await renderVue(app));
const push = createWebPush(options);
await push.refresh();
console.log(push.getSnapshot().status);
`;

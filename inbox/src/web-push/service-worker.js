// The service worker of web push. Host it on the origin of your app with the name belfry-service-worker.js,
// or add it to your own worker:
// importScripts('/belfry-service-worker.js')
(() => {
  // One entry for each name. The page has the same access, and tokens expire.
  const CACHE = 'belfry-web-push';
  const urlOf = (name) => new URL(`/${CACHE}/${name}`, self.location.origin).href;

  async function load(name) {
    const stored = await (await caches.open(CACHE)).match(urlOf(name));
    return stored?.json();
  }

  async function save(name, value) {
    await (await caches.open(CACHE)).put(urlOf(name), new Response(JSON.stringify(value)));
  }

  /** Shows a push of Belfry. Pushes of others are for the other listeners of the worker. */
  async function show({ id, title, content, action_url, tracking_url, custom_attributes, ...shown }) {
    const links = Array.isArray(custom_attributes?.actions) ? custom_attributes.actions : [];
    await self.registration.showNotification(title, {
      body: content ?? '',
      tag: id,
      icon: shown.icon,
      image: shown.image,
      badge: shown.badge,
      // Browsers show as many as they can.
      actions: links
        .filter((link) => typeof link?.label === 'string' && isWeb(link.url))
        .map(({ label, url }) => ({ action: url, title: label })),
      data: { isBelfry: true, id, action_url, tracking_url },
    });
    await showBadge();
  }

  function messageOf(data) {
    try {
      const message = data?.json();
      return typeof message?.title === 'string' ? message : undefined;
    } catch {
      return undefined;
    }
  }

  /** The badge of an installed app: how many notifications wait. The page of the app knows the exact count. */
  function showBadge() {
    // Rejected where the app is not installed.
    lastBadge = lastBadge.then(updateBadge).catch(() => {});
    return lastBadge;
  }

  // One after the other, so that the last one counts: a click may follow a push at once.
  let lastBadge = Promise.resolve();

  async function updateBadge() {
    const shown = await self.registration.getNotifications();
    const count = shown.filter(({ data }) => data?.isBelfry).length;
    await navigator.setAppBadge?.(count);
  }

  const isWeb = (url) => /^https?:\/\//i.test(url ?? '');

  /** Opens the link of a notification. Without one, shows a window of the app. */
  async function open(link) {
    const { homeUrl } = (await load('config')) ?? {};
    const url = isWeb(link) ? link : homeUrl;
    const windows = await self.clients.matchAll({ type: 'window', includeUncontrolled: true });
    const shown = isWeb(link) ? windows.find((client) => client.url === link) : windows[0];
    if (shown) await shown.focus();
    else if (url) await self.clients.openWindow(url);
  }

  async function onClick({ action, notification: { data } }) {
    const opened = open(action || data.action_url);
    const reported = data.tracking_url && fetch(data.tracking_url, { method: 'POST', keepalive: true });
    const read =
      data.id && send(`read-${data.id}`, { method: 'POST', path: `/notifications/${data.id}/read` });
    await Promise.allSettled([opened, reported, read, showBadge()]);
  }

  /** Sends a request now, or as soon as the worker has a valid token. */
  async function send(name, request) {
    await save(`pending/${name}`, request);
    if (!(await sendPending())) await requestToken();
  }

  /** Sends what is pending. Returns false if the token has expired. */
  async function sendPending() {
    const cache = await caches.open(CACHE);
    for (const { url } of await cache.keys()) {
      if (!url.startsWith(urlOf('pending/'))) continue;
      const request = await (await cache.match(url))?.json();
      const status = request && (await statusOf(request));
      if (status === 401) return false;
      // What the server rejects for good is done, too.
      if (status < 500 && ![408, 425, 429].includes(status)) await cache.delete(url);
    }
    return true;
  }

  /** Sends a request, and renews the token if it has expired. Without a config, nothing can be sent. */
  async function statusOf(request) {
    const config = await load('config');
    if (config === undefined) return undefined;
    const status = userOf(config.token) ? (await call(config, request)).status : 401;
    if (status !== 401 || !config.tokenUrl) return status;
    const renewed = await fetch(config.tokenUrl, { credentials: 'include' });
    const token = (await renewed.text()).trim();
    if (!renewed.ok || !userOf(token)) return status;
    await save('config', { ...config, token });
    return (await call({ ...config, token }, request)).status;
  }

  function call({ baseUrl, token }, { method, path, body }) {
    return fetch(`${baseUrl}${path}`, {
      method,
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      keepalive: true,
    });
  }

  /** Open pages of the app reply with a new token. Then nothing is requested, so that this ends. */
  async function requestToken() {
    const windows = await self.clients.matchAll({ type: 'window', includeUncontrolled: true });
    for (const client of windows) client.postMessage({ type: 'belfry-token-expired' });
  }

  async function configure(config) {
    const user = userOf(config.token);
    if (user === undefined) return;
    const former = await load('config');
    // What another user has clicked is not sent with the token of this one.
    if (former !== undefined && userOf(former.token) !== user) await caches.delete(CACHE);
    await save('config', config);
    await sendPending();
  }

  /** The user of a JWT; undefined if it is none, such as the login page of an app whose session has ended. */
  function userOf(token) {
    try {
      const [, claims] = /^[\w-]+\.([\w-]+)\.[\w-]+$/.exec(token);
      const { api_key, user_external_id, user_email } = JSON.parse(
        atob(claims.replaceAll('-', '+').replaceAll('_', '/')),
      );
      return JSON.stringify([api_key, user_external_id ?? user_email]);
    } catch {
      return undefined;
    }
  }

  /** Saves the subscription that replaces an expired one. */
  async function renew(renewed) {
    const config = await load('config');
    if (config === undefined) return;
    const options = { userVisibleOnly: true, applicationServerKey: config.publicKey };
    const subscription = renewed ?? (await self.registration.pushManager.subscribe(options));
    const body = subscription.toJSON();
    await send('subscription', { method: 'PUT', path: '/channels/web_push/tokens', body });
  }

  self.addEventListener('push', (event) => {
    const message = messageOf(event.data);
    if (message !== undefined) event.waitUntil(show(message));
  });

  self.addEventListener('notificationclick', (event) => {
    if (!event.notification.data?.isBelfry) return;
    event.notification.close();
    event.waitUntil(onClick(event));
  });

  self.addEventListener('pushsubscriptionchange', (event) => event.waitUntil(renew(event.newSubscription)));

  self.addEventListener('message', (event) => {
    const { type, ...config } = event.data ?? {};
    if (type !== 'belfry-configure' && type !== 'belfry-forget') return;
    const done = type === 'belfry-forget' ? caches.delete(CACHE) : configure(config);
    // The page waits for this, also if the network fails.
    event.waitUntil(done.catch(() => {}).then(() => event.ports[0]?.postMessage('done')));
  });

  // A new version of this worker is used at once. When that of another worker is used is up to the app.
  // A Belfry server has this worker as push/worker.js, for the page on which users turn on notifications.
  if (/\/(belfry-service-worker|push\/worker)\.js$/.test(self.location.pathname))
    self.addEventListener('install', () => self.skipWaiting());
})();

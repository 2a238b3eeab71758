import { UserClient } from '@belfry/sdk';
import { Observable } from '../store/observable.ts';

export interface WebPushOptions {
  /** The address of the API, with its version: `https://notify.example.com/v2`. */
  baseUrl: string;
  /** The User JWT, or a function that returns it. The function is called before every attempt. */
  token: string | (() => string | Promise<string>);
  /** Where your app hosts the service worker of this package. @default '/belfry-service-worker.js' */
  serviceWorkerUrl?: string | undefined;
  /**
   * An address of your server that responds with a User JWT as text. The service worker fetches it with the
   * cookies of the user when its token has expired. Without it, the worker waits for a page of your app.
   */
  tokenUrl?: string | undefined;
  /** What a click opens if the notification has no `action_url`. @default '/' */
  homeUrl?: string | undefined;
}

/**
 * - `loading`: the state is being read.
 * - `unsupported`: the browser has no web push.
 * - `insecure`: the page is neither on HTTPS nor on localhost.
 * - `needs_installation`: on iPhones and iPads, only apps on the Home Screen have web push.
 * - `denied`: the user has blocked notifications; only the settings of the browser can change that.
 * - `off`, `on`: whether this browser gets the notifications of the user.
 */
export type WebPushStatus =
  | 'loading'
  | 'unsupported'
  | 'insecure'
  | 'needs_installation'
  | 'denied'
  | 'off'
  | 'on';

export interface WebPushSnapshot {
  readonly status: WebPushStatus;
  /** What the user has replied to the prompt of the browser. */
  readonly permission: NotificationPermission;
  /** Whether `enable` or `disable` is under way. */
  readonly isBusy: boolean;
  /** Why the last action failed. */
  readonly error: Error | undefined;
}

/** The push notifications of a user in this browser. */
export interface WebPush {
  getSnapshot(): WebPushSnapshot;
  subscribe(listener: () => void): () => void;
  /**
   * Prompts for the permission, and subscribes the browser. Call it from a click, because browsers ignore
   * prompts otherwise. Never rejects: the snapshot has the error.
   */
  enable(): Promise<void>;
  /** Ends the pushes to this browser. Call it when the user logs out. Never rejects. */
  disable(): Promise<void>;
  /** Reads the state again. */
  refresh(): Promise<void>;
}

const SERVICE_WORKER_URL = '/belfry-service-worker.js';
// Chromium waits for minutes if it cannot reach its push service.
const SUBSCRIBE_TIMEOUT_MS = 20_000;
const WORKER_TIMEOUT_MS = 5_000;

/** Creates the web push of a user. It does nothing before `subscribe`, `refresh` or `enable`. */
export function createWebPush(options: WebPushOptions): WebPush {
  const state = new Observable<WebPushSnapshot>(
    { status: 'loading', permission: 'default', isBusy: false, error: undefined },
    start,
    stop,
  );
  let client: UserClient | undefined;
  let stopped = new AbortController();

  return {
    getSnapshot: state.getSnapshot,
    subscribe: state.subscribe,
    enable: () => act(enable),
    disable: () => act(disable),
    refresh: () => read().catch(report),
  };

  function start(): void {
    stopped = new AbortController();
    const { signal } = stopped;
    void read().catch(report);
    if (!isSupported()) return;
    navigator.serviceWorker.addEventListener('message', onMessage, { signal });
    void navigator.permissions?.query({ name: 'notifications' }).then(
      (permission) => permission.addEventListener('change', () => void read().catch(report), { signal }),
      () => {}, // the browser cannot query it
    );
  }

  function stop(): void {
    stopped.abort();
  }

  function onMessage({ data }: MessageEvent): void {
    if (data?.type === 'belfry-token-expired') void configure().catch(report);
  }

  async function act(action: () => Promise<void>): Promise<void> {
    if (state.getSnapshot().isBusy) return;
    state.set({ isBusy: true, error: undefined });
    try {
      await action();
      await read();
    } catch (error) {
      await read().catch(() => {});
      report(error);
    } finally {
      state.set({ isBusy: false });
    }
  }

  function report(error: unknown): void {
    const status = state.getSnapshot().status;
    state.set({
      error: error instanceof Error ? error : new Error(String(error)),
      ...(status === 'loading' ? { status: 'off' } : {}),
    });
  }

  /** Reads the state of the browser, and whether the server has its subscription for this user. */
  async function read(): Promise<void> {
    const missing = missingSupport();
    if (missing !== undefined) return state.set({ status: missing });
    const { permission } = Notification;
    if (permission === 'denied') return state.set({ status: 'denied', permission });
    const subscription = await (await registration())?.pushManager.getSubscription();
    if (permission !== 'granted' || !subscription) return state.set({ status: 'off', permission });
    // First the worker saves a renewed subscription.
    await configure();
    const isSaved = (await tokenIdOf(subscription)) !== undefined;
    state.set({ status: isSaved ? 'on' : 'off', permission });
  }

  async function enable(): Promise<void> {
    if (missingSupport() !== undefined) return;
    // Before anything else, because browsers prompt only shortly after a click.
    if ((await Notification.requestPermission()) !== 'granted') return;
    const { public_key } = await api().installations.webPush.start();
    const publicKey = public_key.replace(/=+$/, '');
    const registered = await navigator.serviceWorker.register(trusted(serviceWorkerUrl()));
    await activated(registered);
    const subscription = await subscribeWith(registered.pushManager, publicKey);
    await configure(publicKey);
    const { endpoint = '', keys = {} } = subscription.toJSON();
    const { auth = '', p256dh = '' } = keys;
    await api().channelTokens.webPush.save({ endpoint, keys: { auth, p256dh } });
  }

  async function disable(): Promise<void> {
    const registered = await registration();
    const subscription = await registered?.pushManager.getSubscription();
    if (!registered || !subscription) return;
    const tokenId = await tokenIdOf(subscription).catch(() => undefined);
    // Without the subscription nothing arrives, also if the request below fails.
    await subscription.unsubscribe();
    await post(registered, { type: 'belfry-forget' });
    if (tokenId !== undefined) await api().channelTokens.webPush.discard(tokenId);
  }

  /** Passes the token to the service worker, and waits until it has sent what it could not send before. */
  async function configure(publicKey?: string): Promise<void> {
    const registered = await registration();
    if (!registered) return;
    const { token, tokenUrl, homeUrl = '/' } = options;
    const key = (await registered.pushManager.getSubscription())?.options.applicationServerKey;
    await post(registered, {
      type: 'belfry-configure',
      baseUrl: absolute(options.baseUrl).replace(/\/+$/, ''),
      token: typeof token === 'string' ? token : await token(),
      publicKey: publicKey ?? (key ? base64Url(key) : undefined),
      homeUrl: absolute(homeUrl),
      ...(tokenUrl === undefined ? {} : { tokenUrl: absolute(tokenUrl) }),
    });
  }

  async function tokenIdOf({ endpoint }: PushSubscription): Promise<string | undefined> {
    for await (const token of api().channelTokens.webPush.list({ limit: 100 }))
      if (token.endpoint === endpoint) return token.id;
    return undefined;
  }

  function api(): UserClient {
    client ??= new UserClient({ baseUrl: absolute(options.baseUrl), token: options.token });
    return client;
  }

  function serviceWorkerUrl(): string {
    return options.serviceWorkerUrl ?? SERVICE_WORKER_URL;
  }

  function registration(): Promise<ServiceWorkerRegistration | undefined> {
    return navigator.serviceWorker.getRegistration(serviceWorkerUrl());
  }
}

interface ScriptUrls {
  createScriptURL(url: string): string;
}
let policy: ScriptUrls | undefined;

/** The URL that the app has chosen, as pages with `require-trusted-types-for 'script'` want it. */
function trusted(url: string): string {
  const { trustedTypes } = globalThis as {
    trustedTypes?: { defaultPolicy: unknown; createPolicy(name: string, rules: ScriptUrls): ScriptUrls };
  };
  // The page may have a policy for all of its scripts.
  if (trustedTypes === undefined || trustedTypes.defaultPolicy) return url;
  policy ??= trustedTypes.createPolicy('belfry-web-push', { createScriptURL: (given) => given });
  return policy.createScriptURL(url);
}

function isSupported(): boolean {
  return missingSupport() === undefined;
}

/** Why the page cannot use web push. On a server, it is not supported. */
function missingSupport(): 'unsupported' | 'insecure' | 'needs_installation' | undefined {
  if (typeof navigator === 'undefined' || typeof window === 'undefined') return 'unsupported';
  if (!window.isSecureContext) return 'insecure';
  if ('serviceWorker' in navigator && 'PushManager' in window && 'Notification' in window) return undefined;
  return isIos() ? 'needs_installation' : 'unsupported';
}

// An iPad names itself a Mac, which has no touch screen.
function isIos(): boolean {
  return (
    /iP(hone|ad|od)/.test(navigator.userAgent) ||
    (/Mac/.test(navigator.userAgent) && navigator.maxTouchPoints > 1)
  );
}

/** Subscribes with the key. A subscription with another key is replaced. */
async function subscribeWith(manager: PushManager, applicationServerKey: string): Promise<PushSubscription> {
  const options = { userVisibleOnly: true, applicationServerKey };
  const existing = await manager.getSubscription();
  const key = existing?.options.applicationServerKey;
  if (existing && key && base64Url(key) === applicationServerKey) return existing;
  await existing?.unsubscribe();
  return new Promise((resolve, reject) => {
    const timer = setTimeout(
      () => reject(new DOMException('The push service of the browser did not respond', 'AbortError')),
      SUBSCRIBE_TIMEOUT_MS,
    );
    manager
      .subscribe(options)
      .then(resolve, reject)
      .finally(() => clearTimeout(timer));
  });
}

/** Resolves when the service worker can receive messages. */
async function activated({ active, waiting, installing }: ServiceWorkerRegistration): Promise<void> {
  const worker = installing ?? waiting;
  if (active || !worker) return;
  await new Promise<void>((resolve, reject) => {
    worker.addEventListener('statechange', () => {
      if (worker.state === 'activated') resolve();
      if (worker.state === 'redundant') reject(new Error('The service worker could not be installed'));
    });
  });
}

/** Sends a message to the service worker, and waits until it is handled. */
async function post(registered: ServiceWorkerRegistration, message: object): Promise<void> {
  const { port1, port2 } = new MessageChannel();
  const handled = new Promise((resolve) => {
    port1.onmessage = resolve;
  });
  await activated(registered);
  registered.active?.postMessage(message, [port2]);
  // A worker that lacks this package does not reply, and one without a network replies late.
  const late = new Promise((resolve) => setTimeout(resolve, WORKER_TIMEOUT_MS));
  await Promise.race([handled, late]);
  port1.close();
}

function absolute(url: string): string {
  return new URL(url, location.href).href;
}

function base64Url(bytes: ArrayBuffer): string {
  const text = btoa(String.fromCharCode(...new Uint8Array(bytes)));
  return text.replaceAll('+', '-').replaceAll('/', '_').replace(/=+$/, '');
}

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { describe } from 'vitest';
import { WebSocket } from 'ws';

// Debian's. Playwright needs its own Firefox, or a newer one.
const FIREFOX = '/usr/bin/firefox-esr';

/** `describe`, skipped where Firefox is missing. */
export const describeInFirefox = describe.skipIf(!existsSync(FIREFOX));

export interface Firefox {
  open(url: string): Promise<FirefoxPage>;
  close(): Promise<void>;
}

export interface FirefoxPage {
  /** Evaluates an expression as if the user had just clicked, and awaits its value, which must be JSON. */
  evaluate<Value>(expression: string): Promise<Value>;
  /** Calls a function in the page, which uses nothing but its argument and globals. */
  call<Argument, Value>(run: (argument: Argument) => Value, argument: Argument): Promise<Awaited<Value>>;
  /** Presses keys one after the other, by the names of `KEYS`. */
  press(...keys: (keyof typeof KEYS)[]): Promise<void>;
  /** Cuts the page off from the network, or connects it. */
  setOffline(isOffline: boolean): Promise<void>;
  close(): Promise<void>;
}

/** The code points of WebDriver for keys that are not characters. */
const KEYS = {
  Tab: '\uE004',
  Enter: '\uE007',
  Escape: '\uE00C',
  End: '\uE010',
  ArrowDown: '\uE015',
};

type Preferences = Record<string, string | number | boolean>;

/** Starts Firefox with a new profile, driven by WebDriver BiDi. */
export async function openFirefox(preferences: Preferences = {}): Promise<Firefox> {
  const profile = await mkdtemp(join(tmpdir(), 'belfry-firefox-'));
  const lines = Object.entries({ ...DEFAULTS, ...preferences }).map(
    ([name, value]) => `user_pref(${JSON.stringify(name)}, ${JSON.stringify(value)});\n`,
  );
  await writeFile(join(profile, 'user.js'), lines.join(''));
  const args = ['--headless', '--no-remote', '--remote-debugging-port', '0', '--profile', profile];
  const child = spawn(FIREFOX, args, { stdio: ['ignore', 'ignore', 'pipe'] });
  const exited = once(child, 'exit');
  const send = await connect(await addressIn(child.stderr));
  await send('session.new', { capabilities: {} });
  return {
    async open(url) {
      const { context } = await send('browsingContext.create', { type: 'tab' });
      await send('browsingContext.navigate', { context, url, wait: 'complete' });
      return pageIn(context, send);
    },
    async close() {
      child.kill();
      await exited;
      await rm(profile, { recursive: true, force: true });
    },
  };
}

function pageIn(context: string, send: Send): FirefoxPage {
  const page: FirefoxPage = {
    async evaluate(expression) {
      const { result, exceptionDetails } = await send('script.evaluate', {
        expression: `(async () => JSON.stringify(await (${expression})))()`,
        target: { context },
        awaitPromise: true,
        userActivation: true,
      });
      if (exceptionDetails) throw new Error(exceptionDetails.text);
      return result.value === undefined ? undefined : JSON.parse(result.value);
    },
    call: (run, argument) => page.evaluate(`(${run})(${JSON.stringify(argument)})`),
    async press(...keys) {
      const actions = keys.flatMap((key) => ['keyDown', 'keyUp'].map((type) => ({ type, value: KEYS[key] })));
      const source = { type: 'key', id: 'keyboard', actions };
      await send('input.performActions', { context, actions: [source] });
    },
    async setOffline(isOffline) {
      const networkConditions = isOffline ? { type: 'offline' } : null;
      await send('emulation.setNetworkConditions', { networkConditions, contexts: [context] });
    },
    close: async () => void (await send('browsingContext.close', { context })),
  };
  return page;
}

/** Keeps Firefox from calling hosts of its vendor, and gives it a mouse: else it has `(hover: none)`. */
const DEFAULTS: Preferences = {
  'services.settings.server': 'data:,#remote-settings-dummy/v1',
  'datareporting.policy.dataSubmissionEnabled': false,
  'network.captive-portal-service.enabled': false,
  'network.connectivity-service.enabled': false,
  'ui.primaryPointerCapabilities': 6, // fine, and can hover
  'ui.allPointerCapabilities': 6,
};

/** The address of the BiDi server, which Firefox prints. */
async function addressIn(stderr: NodeJS.ReadableStream): Promise<string> {
  for await (const line of createInterface({ input: stderr })) {
    const [, address] = /WebDriver BiDi listening on (ws:\S+)/.exec(line) ?? [];
    if (address !== undefined) {
      stderr.resume();
      return address;
    }
  }
  throw new Error('Firefox does not start');
}

// biome-ignore lint/suspicious/noExplicitAny: the results of many commands
type Send = (method: string, params: object) => Promise<any>;

async function connect(address: string): Promise<Send> {
  const socket = new WebSocket(`${address}/session`);
  await once(socket, 'open');
  const pending = new Map<number, PromiseWithResolvers<unknown>>();
  let lastId = 0;
  socket.on('message', (text) => {
    const { id, error, message, result } = JSON.parse(String(text));
    const command = pending.get(id);
    if (error === undefined) command?.resolve(result);
    else command?.reject(new Error(`${error}: ${message}`));
    pending.delete(id);
  });
  return (method, params) => {
    lastId += 1;
    const command = Promise.withResolvers<unknown>();
    pending.set(lastId, command);
    socket.send(JSON.stringify({ id: lastId, method, params }));
    return command.promise;
  };
}

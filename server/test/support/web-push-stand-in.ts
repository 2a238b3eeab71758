import { once } from 'node:events';
import { createServer } from 'node:http';
import { createRequire } from 'node:module';
import type { AddressInfo } from 'node:net';
import { type Outages, outagesOf } from './outage.ts';

/** A push service with subscribed browsers. */
export interface WebPushStandIn {
  /** Subscribes a browser, with the public key of the application server. */
  subscribe(applicationServerKey: string): Promise<BrowserSubscription>;
  /** The decrypted messages of a browser. */
  notifications(clientHash: string): Promise<string[]>;
  /** Ends a subscription: pushes get a 410 from now on. */
  expire(clientHash: string): Promise<void>;
  outages: Outages;
  stop(): Promise<void>;
}

export interface BrowserSubscription {
  endpoint: string;
  keys: { p256dh: string; auth: string };
  clientHash: string;
}

const require = createRequire(import.meta.url);

/** Starts npm's `web-push-testing` on loopback. By itself, it listens on every interface. */
export async function startWebPushStandIn(): Promise<WebPushStandIn> {
  const { PushApiModel } = require('web-push-testing/src/PushApiModel.js');
  const TestingServer = require('web-push-testing/src/server.js');
  const model = new PushApiModel();
  const testing = new TestingServer(model, 0);
  testing.setRequestHandlers();
  const server = createServer(testing._app);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  model.notifyUrl = `${address}/notify/`;
  const post = async <Result>(path: string, body: object): Promise<Result> => {
    const response = await fetch(`${address}${path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
    const text = await response.text();
    if (response.status !== 200) throw new Error(text);
    return (text === 'OK' ? {} : JSON.parse(text)) as Result;
  };
  return {
    async subscribe(applicationServerKey: string) {
      const options = { userVisibleOnly: 'true', applicationServerKey };
      return (await post<{ data: BrowserSubscription }>('/subscribe', options)).data;
    },
    async notifications(clientHash: string) {
      const { data } = await post<{ data: { messages: string[] } }>('/get-notifications', { clientHash });
      return data.messages;
    },
    async expire(clientHash) {
      await post(`/expire-subscription/${clientHash}`, {});
    },
    outages: outagesOf(server),
    async stop() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}

import { requestBytes } from './connection.ts';

/** A request that writes, different each time. */
export interface WriteRequest {
  operation: string;
  variant: string;
  bytes(number: number): Buffer;
}

/** Requests that save one record: new ones and existing ones. */
export function writeRequests({
  projectJwt,
  userJwt,
  unique,
}: {
  projectJwt: string;
  userJwt: string;
  /** New ids start with this. */
  unique: string;
}): WriteRequest[] {
  const save = (
    method: string,
    operation: string,
    variant: string,
    jwt: string,
    path: string,
    body: (number: number) => object,
  ): WriteRequest => ({
    operation,
    variant,
    bytes: (number) => requestBytes({ method, path: `/v2${path}`, jwt, body: JSON.stringify(body(number)) }),
  });
  const apns = '/channels/mobile_push/apns/tokens';
  const subscription = (number: number) => ({
    topic: `${unique}${number}`,
    categories: [{ slug: '*', status: 'subscribed' }],
  });
  const token = (number: number) => ({ device_token: `${unique}${number}`.padEnd(64, '0') });
  const category = (number: number) => ({
    categories: [
      { key: `category/${(number % 900) + 1}`, channels: [{ name: 'email', enabled: number % 2 === 0 }] },
    ],
  });
  return [
    save('PUT', 'saveUser', 'new', projectJwt, '/users', (number) => ({
      external_id: `${unique}${number}`,
      first_name: 'Ada',
    })),
    save('PUT', 'saveUser', 'changed', projectJwt, '/users', (number) => ({
      external_id: `user-${500_000 + number}`,
      first_name: unique,
    })),
    save('PUT', 'saveApnsToken', 'new', userJwt, apns, token),
    save('PUT', 'saveApnsToken', 'the same again', userJwt, apns, token),
    save('PUT', 'saveUserPreferences', '', userJwt, '/channels/user_preferences', category),
    save('POST', 'saveSubscription', 'new', userJwt, '/subscriptions', subscription),
    save('PUT', 'saveCategoryDeliveryConfig', 'changed', projectJwt, '/channels', (number) => ({
      key: `category/${(number % 900) + 1}`,
      channels: [{ channel: 'in_app' }],
    })),
  ];
}

import { requestBytes } from './connection.ts';

/** A request that writes, made anew each time. */
export interface WriteRequest {
  operation: string;
  variant: string;
  bytes(number: number): Buffer;
}

/** Requests that save one record: new ones, and such as are there already. */
export function writeRequests({
  projectJwt,
  userJwt,
  unique,
}: {
  projectJwt: string;
  userJwt: string;
  /** What is new begins with this. */
  unique: string;
}): WriteRequest[] {
  const put = (
    operation: string,
    variant: string,
    jwt: string,
    path: string,
    body: (number: number) => object,
  ): WriteRequest => ({
    operation,
    variant,
    bytes: (number) =>
      requestBytes({ method: 'PUT', path: `/v2${path}`, jwt, body: JSON.stringify(body(number)) }),
  });
  const apns = '/channels/mobile_push/apns/tokens';
  const token = (number: number) => ({ device_token: `${unique}${number}`.padEnd(64, '0') });
  const category = (number: number) => ({
    categories: [
      { key: `category/${(number % 900) + 1}`, channels: [{ name: 'email', enabled: number % 2 === 0 }] },
    ],
  });
  return [
    put('saveUser', 'new', projectJwt, '/users', (number) => ({
      external_id: `${unique}${number}`,
      first_name: 'Ada',
    })),
    put('saveUser', 'changed', projectJwt, '/users', (number) => ({
      external_id: `user-${500_000 + number}`,
      first_name: unique,
    })),
    put('saveApnsToken', 'new', userJwt, apns, token),
    put('saveApnsToken', 'the same again', userJwt, apns, token),
    put('saveUserPreferences', '', userJwt, '/channels/user_preferences', category),
    put('saveCategoryDeliveryConfig', 'changed', projectJwt, '/channels', (number) => ({
      key: `category/${(number % 900) + 1}`,
      channels: [{ channel: 'in_app' }],
    })),
  ];
}

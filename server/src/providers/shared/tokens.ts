import { type TProperties, Type } from 'typebox';
import { Id, nullable, storedString, Timestamp } from '../../contract/common.ts';
import type { TargetedTokens, TokenTarget } from '../provider.ts';

// Longer than any token in use. Limits the size of lookups and messages.
export const MAX_TOKEN = 4096;

/** The members that every stored token has in addition to its own. */
const record = {
  created_at: Timestamp,
  updated_at: nullable(Timestamp),
  discarded_at: nullable(Timestamp),
};

/** Returns the three schemas of a token: the request that saves it, the response to that, and its record. */
export function tokenSchemas<Members extends TProperties, Saved extends TProperties>(
  name: string,
  { save, saved, id = Id }: { save: Members; saved: Saved; id?: typeof Id },
  rules: object = {},
) {
  return {
    save: Type.Object(save, { title: `${name}Input`, additionalProperties: false, ...rules }),
    saved: Type.Object(saved, { title: `Saved${name}` }),
    token: Type.Object({ id, ...saved, ...record }, { title: name }),
  };
}

/** The schema of an object inside a token. */
export function part<Members extends TProperties>(title: string, members: Members) {
  return Type.Object(members, { title, additionalProperties: false });
}

/**
 * The schema of a server's address. Private addresses are rejected when the token is saved and at each use,
 * because a name may resolve to another address by then.
 */
export const serverAddress = (description: string, example: string) =>
  Type.String({
    format: 'uri',
    pattern: '^[Hh][Tt][Tt][Pp][Ss]?://',
    minLength: 1,
    maxLength: 2048,
    'x-problem': 'must be an address that begins with https:// or http://',
    description,
    examples: [example],
  });

/** The token of a device, as the platform issued it to the app. */
export const deviceToken = (minLength: number, description: string, example: string) => ({
  device_token: storedString({ minLength, maxLength: MAX_TOKEN, description, examples: [example] }),
});

type DeviceToken = { device_token: string; app_id?: string; installation_id?: string };

/** The token collection of a push provider. A device has one user at a time. */
export function deviceTokens(
  provider: string,
  name: string,
  members: TProperties,
): TargetedTokens<DeviceToken> {
  const { minLength = 0 } = (members.device_token ?? {}) as { minLength?: number };
  return {
    collection: `mobile_push/${provider}`,
    kind: 'device',
    ...tokenSchemas(name, { save: members, saved: members }),
    identity: ({ device_token: text }) => ({ text }),
    isShown: ({ device_token: text }) => text.length >= minLength,
    target: deviceTarget,
  };
}

function deviceTarget({
  device_token: deviceToken,
  app_id: appId,
  installation_id: installationId,
}: DeviceToken): TokenTarget {
  return {
    address: {
      token: {
        deviceToken,
        appId,
        installationId,
      },
    },
    appId,
    secrets: [deviceToken],
  };
}

import { expect, test } from 'vitest';
import { CHANNELS } from '../../../contract/channel.ts';
import type { Category } from '../../setup/categories/cache.ts';
import { routesOf, skipReason, skipReasonText } from './routes.ts';

const BOOLEANS = [false, true];
const PAIRS = BOOLEANS.flatMap((one) => BOOLEANS.map((other) => [one, other] as const));

/** The outcome of one channel according to the rules of the contract, one after the other. */
function oracle(
  channel: string,
  state: {
    configured: boolean;
    disabled: boolean;
    critical: boolean;
    listed: boolean;
    off: boolean;
    reachable: boolean;
  },
): string {
  if (state.configured && state.disabled) return 'category_disabled';
  if (state.configured && !state.listed) return 'channel_not_listed';
  if (state.off && !(state.configured && state.critical)) return 'switched_off';
  if (!state.reachable) return 'unreachable';
  return `sent on ${channel}`;
}

test('every combination of config, preference and address agrees with the rules one by one', () => {
  let combinations = 0;
  for (const channel of CHANNELS)
    for (const configured of BOOLEANS)
      for (const [disabled, critical] of PAIRS)
        for (const listed of BOOLEANS)
          for (const others of BOOLEANS)
            for (const off of BOOLEANS)
              for (const reachable of BOOLEANS) {
                const names = [
                  ...(others ? CHANNELS.filter((one) => one !== channel) : []),
                  ...(listed ? [channel] : []),
                ];
                const category: Category | undefined = configured
                  ? {
                      key: 'any',
                      disabled,
                      critical,
                      channels: names.map((name) => ({
                        channel: name,
                        delayMs: 7,
                        condition: 'true',
                        windows: undefined,
                      })),
                    }
                  : undefined;
                const routes = routesOf(category, CHANNELS);
                const [route] = routes.filter((one) => one.channel === channel);
                if (route === undefined) throw new Error(`no route for ${channel}`);
                const reason = skipReason(route, { reachable, switchedOff: off });
                expect(reason ?? `sent on ${channel}`).toBe(
                  oracle(channel, { configured, disabled, critical, listed, off, reachable }),
                );
                const timed = configured && listed;
                expect([route.delayMs, route.conditional]).toEqual(timed ? [7, true] : [0, false]);
                expect(routes.map((one) => one.channel)).toEqual(CHANNELS);
                combinations += 1;
              }
  expect(combinations).toBe(CHANNELS.length * 128);
});

test('a channel that is not configured has no route, whatever the category lists', () => {
  const category = {
    key: 'any',
    disabled: false,
    critical: false,
    channels: [{ channel: 'sms', delayMs: 0, condition: undefined, windows: undefined }],
  };
  expect(routesOf(category, ['in_app', 'email'])).toEqual([
    { channel: 'in_app', skip: 'channel_not_listed', delayMs: 0, conditional: false, required: false },
    { channel: 'email', skip: 'channel_not_listed', delayMs: 0, conditional: false, required: false },
  ]);
  expect(routesOf(category, [])).toEqual([]);
});

test('every reason has its words', () => {
  const reasons = ['category_disabled', 'channel_not_listed', 'switched_off', 'unreachable'] as const;
  const words = reasons.flatMap((reason) => CHANNELS.map((channel) => skipReasonText(reason, channel)));
  expect(new Set(words)).toEqual(
    new Set([
      'the category is disabled',
      'the category does not go out on this channel',
      'the user has switched this category off on this channel',
      'the user cannot be reached on this channel',
      'the user has no e-mail address',
      'the user has no phone number',
    ]),
  );
});

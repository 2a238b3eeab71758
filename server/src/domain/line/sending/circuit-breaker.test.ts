import { describe, expect, test } from 'vitest';
import type { SendOutcome } from '../../../providers/provider.ts';
import type { GoneToken } from '../../people/tokens/gone-token.ts';
import {
  addFailure,
  admit,
  afterSend,
  type BreakerPermit,
  type CircuitBreaker,
  CLOSED,
  endSuspicion,
  keepToken,
  newSuspicion,
  type Verdict,
  verdictOf,
} from './circuit-breaker.ts';

const random = () => 0.5; // the middle of every jitter

/** A breaker with a clock. */
function start() {
  let nowMs = 1_000_000;
  let breaker: CircuitBreaker = CLOSED;
  return {
    get state() {
      return breaker.state;
    },
    wait(ms: number) {
      nowMs += ms;
    },
    /** A permit, or for how long to wait. */
    ask(): BreakerPermit | number {
      const asked = admit(breaker, nowMs, random);
      breaker = asked.breaker;
      return 'permit' in asked ? asked.permit : asked.untilMs - nowMs;
    },
    end(permit: BreakerPermit | number, verdict: Verdict, userId = 'ada') {
      if (typeof permit === 'number') throw new Error('it was not let through');
      breaker = afterSend(breaker, permit, verdict, { userId, nowMs, random });
    },
    /** Sends each message to another user. */
    send(...verdicts: Verdict[]) {
      verdicts.forEach((verdict, index) => {
        this.end(this.ask(), verdict, `user ${index}`);
      });
    },
    sendTo(users: readonly string[], verdict: Verdict) {
      for (const userId of users) this.end(this.ask(), verdict, userId);
    },
  };
}

const times = <const Value>(count: number, value: Value): Value[] =>
  Array.from({ length: count }, () => value);

describe('closed', () => {
  test('one rejection of the config opens it', () => {
    const one = start();
    one.send('works', 'rejects');
    expect(one.state).toBe('open');
    expect(one.ask()).toBe(60_000);
  });

  test('the twentieth send without a response in a row opens it, not the nineteenth', () => {
    const one = start();
    one.send(...times(19, 'no_response'));
    expect(one.state).toBe('closed');
    one.send('no_response');
    expect(one.state).toBe('open');
  });

  test('one or two users whose messages get no response open nothing', () => {
    const one = start();
    one.sendTo(times(60, 'ada'), 'no_response');
    one.sendTo(times(60, 'bob'), 'no_response');
    expect(one.state).toBe('closed');
    one.sendTo(['cleo'], 'no_response');
    expect(one.state).toBe('open');
  });

  test('a success to anyone resets the users, too', () => {
    const one = start();
    one.sendTo(['ada', 'bob'], 'no_response');
    one.sendTo(['ada'], 'works');
    one.sendTo(times(20, 'cleo'), 'no_response');
    expect(one.state).toBe('closed');
  });

  test('a success resets the count, an inconclusive outcome does not', () => {
    const one = start();
    one.send(...times(19, 'no_response'), 'works', ...times(19, 'no_response'));
    expect(one.state).toBe('closed');
    one.send('inconclusive', 'no_response');
    expect(one.state).toBe('open');
  });
});

describe('a rejection that the same user met before', () => {
  test('opens nothing', () => {
    const one = start();
    one.send(...times(100, 'rejects_same_user'));
    expect(one.state).toBe('closed');
  });

  test('of a probe, does not make the wait longer', () => {
    const one = start();
    one.send('rejects');
    for (let n = 0; n < 5; n += 1) {
      one.wait(60_000);
      one.send('rejects_same_user');
      expect(one.ask()).toBe(60_000);
    }
    one.wait(60_000);
    one.send('works');
    expect(one.state).toBe('closed');
  });
});

test('a probe to a user whose messages got no response before makes the wait no longer', () => {
  const one = start();
  one.send(...times(20, 'no_response'));
  for (let n = 0; n < 5; n += 1) {
    expect(one.ask()).toBe(5_000);
    one.wait(5_000);
    one.sendTo(['user 7'], 'no_response');
  }
  one.wait(5_000);
  one.sendTo(['another user'], 'no_response');
  expect(one.ask()).toBe(10_000);
  one.wait(10_000);
  one.sendTo(['user 7'], 'works');
  expect(one.state).toBe('closed');
});

describe('open', () => {
  test('nothing goes through until the probe is due, and then one at a time', () => {
    const one = start();
    one.send('rejects');
    one.wait(59_999);
    expect(one.ask()).toBe(1);
    one.wait(1);
    const probe = one.ask();
    expect(probe).toMatchObject({ epoch: expect.any(Number) });
    expect(one.ask()).toBe(10_000);
    one.end(probe, 'works');
    expect(one.state).toBe('closed');
    expect(typeof one.ask()).toBe('object');
  });

  test('messages that arrive during a probe are deferred to the same time, to stay one job', () => {
    const opened = afterSend(CLOSED, CLOSED, 'rejects', { userId: 'ada', nowMs: 0, random });
    let { breaker } = admit(opened, 60_000, random);
    const untils = new Set<number>();
    for (let ms = 0; ms < 1_000; ms += 10) {
      const asked = admit(breaker, 60_000 + ms);
      breaker = asked.breaker;
      if ('untilMs' in asked) untils.add(asked.untilMs);
    }
    expect(untils.size).toBe(1);
    // Later ones get another time: never one in the past.
    expect(admit(breaker, 70_000, random)).toMatchObject({ untilMs: 80_000 });
  });

  test('a clock that is set back does not delay the probe', () => {
    const opened = afterSend(CLOSED, CLOSED, 'rejects', { userId: 'ada', nowMs: 86_400_000, random });
    expect(admit(opened, 0, random)).toMatchObject({ permit: { epoch: expect.any(Number) } });
  });

  test('each probe that fails doubles the wait, up to ten minutes', () => {
    const one = start();
    one.send('rejects');
    const waits = [];
    for (const verdict of ['rejects', 'no_response', 'rejects', 'no_response', 'rejects'] as const) {
      const waitMs = Number(one.ask());
      waits.push(waitMs);
      one.wait(waitMs);
      one.sendTo([`user of probe ${waits.length}`], verdict);
    }
    expect([...waits, one.ask()]).toEqual([60_000, 120_000, 240_000, 480_000, 600_000, 600_000]);
  });

  test('a vendor that does not respond is probed soon, one that rejects after a minute at least', () => {
    const one = start();
    one.send(...times(20, 'no_response'));
    const waits = [];
    for (const verdict of ['no_response', 'no_response', 'rejects', 'no_response'] as const) {
      const waitMs = Number(one.ask());
      waits.push(waitMs);
      one.wait(waitMs);
      const probe = one.ask();
      waits.push(one.ask()); // meanwhile
      one.end(probe, verdict, `user of probe ${waits.length}`);
    }
    expect([...waits, one.ask()]).toEqual([
      5_000, 5_000, 10_000, 10_000, 20_000, 10_000, 60_000, 10_000, 120_000,
    ]);
  });

  test('after it has worked the wait is short again', () => {
    const one = start();
    one.send('rejects');
    one.wait(60_000);
    one.send('rejects');
    one.wait(120_000);
    one.send('works', 'rejects');
    expect(one.ask()).toBe(60_000);
  });

  test('an inconclusive probe lets the next message be one at once', () => {
    const one = start();
    one.send('rejects');
    one.wait(60_000);
    one.send('inconclusive');
    expect(one.state).toBe('open');
    one.send('works');
    expect(one.state).toBe('closed');
  });

  test.each<Verdict>(['works', 'rejects', 'no_response'])(
    'sends in flight from before do not change it: %s',
    (verdict) => {
      const one = start();
      const before = one.ask();
      one.send('rejects');
      one.end(before, verdict);
      expect(one.state).toBe('open');
      one.wait(60_000);
      const probe = one.ask();
      one.end(before, verdict);
      expect(one.state).toBe('half_open');
      one.end(probe, 'works');
      one.end(before, verdict);
      expect(one.state).toBe('closed');
    },
  );
});

test.each([
  [0, 48_000],
  [1, 72_000],
])('the wait is a fifth shorter or longer by chance: %d', (chance, waitMs) => {
  const opened = afterSend(CLOSED, CLOSED, 'rejects', { userId: 'ada', nowMs: 0, random: () => chance });
  expect(opened).toMatchObject({ state: 'open', probeAtMs: waitMs });
});

const later = (code?: string, more: { ambiguous?: boolean; retryAfterMs?: number } = {}): SendOutcome => ({
  kind: 'retry',
  reason: 'r',
  ambiguous: false,
  ...(code === undefined ? {} : { code }),
  ...more,
});
const refused = (scope: 'message' | 'address' | 'config'): SendOutcome => ({
  kind: 'rejected',
  scope,
  reason: 'r',
});
const gone: SendOutcome = { kind: 'token_gone', scope: 'token', reason: 'r' };

test.each<[string, SendOutcome, Verdict]>([
  ['sent', { kind: 'sent' }, 'works'],
  ['a rejected config', refused('config'), 'rejects'],
  ['a rejected message', refused('message'), 'inconclusive'],
  ['a rejected address', refused('address'), 'inconclusive'],
  ['a gone token', gone, 'inconclusive'],
  ['a gone token or a wrong config', { ...gone, suspect: 'config' }, 'inconclusive'],
])('%s', (_, outcome, verdict) => {
  expect(verdictOf(outcome, { overridden: false })).toBe(verdict);
});

test('a rejection of the config is the message’s own fault if it has an override', () => {
  expect(verdictOf(refused('config'), { overridden: true })).toBe('inconclusive');
});

describe('no response', () => {
  test.each([
    ['ETIMEDOUT', { ambiguous: true }],
    ['ECONNREFUSED', {}],
    ['ENOTFOUND', {}],
    ['500', {}],
    ['502', { ambiguous: true }],
    ['503', {}],
    ['InternalServerError', {}],
    ['UNAVAILABLE', {}],
    [undefined, {}],
  ])('%s', (code, more) => {
    expect(verdictOf(later(code, more), { overridden: false })).toBe('no_response');
  });
});

describe('a response that says "later"', () => {
  test.each([
    ['429', {}],
    ['408', {}],
    ['450 4.2.0', {}],
    ['421', {}],
    ['503', { retryAfterMs: 1000 }],
    ['20429', {}],
    ['TooManyRequests', {}],
    ['TOO_MANY_REQUESTS', {}],
    ['QUOTA_EXCEEDED', {}],
    ['RESOURCE_EXHAUSTED', {}],
    ['ThrottlingException', {}],
    ['ratelimited', {}],
    ['token_expired', {}],
    ['LimitExceededException', {}],
  ])('%s', (code, more) => {
    expect(verdictOf(later(code, more), { overridden: false })).toBe('inconclusive');
  });
});

const token = (n: number, reason = 'gone'): GoneToken => ({
  projectId: 'p',
  userId: 'u',
  tokenId: `t${n}`,
  channel: 'mobile_push/apns',
  scope: 'token',
  reason,
});
const numbers = (count: number) => Array.from({ length: count }, (_, n) => n);

test('tokens are kept until a success shows that they are gone', () => {
  const suspicion = newSuspicion();
  for (const n of numbers(9)) keepToken(suspicion, token(n));
  expect(endSuspicion(suspicion).map(({ tokenId }) => tokenId)).toEqual(numbers(9).map((n) => `t${n}`));
  expect(endSuspicion(suspicion)).toEqual([]);
});

test('ten users in a row show that the config is at fault, and none of their tokens is discarded', () => {
  const suspicion = newSuspicion();
  for (const n of numbers(9)) {
    expect(addFailure(suspicion, `u${n}`)).toBe('counted');
    keepToken(suspicion, token(n));
  }
  expect(addFailure(suspicion, 'u9')).toBe('config_at_fault');
  expect(endSuspicion(suspicion)).toEqual([]);
});

test('the failures of one user never show that the config is at fault', () => {
  const suspicion = newSuspicion();
  expect(addFailure(suspicion, 'u')).toBe('counted');
  for (const _ of numbers(100)) expect(addFailure(suspicion, 'u')).toBe('repeated');
});

test('a success in between resets the count', () => {
  const suspicion = newSuspicion();
  for (const n of numbers(9)) addFailure(suspicion, `u${n}`);
  endSuspicion(suspicion);
  expect(addFailure(suspicion, 'u9')).toBe('counted');
});

test('one token is kept once, with its last report, and only some hundreds are kept', () => {
  const suspicion = newSuspicion();
  for (const n of numbers(30)) keepToken(suspicion, token(1, `said ${n}`));
  expect(endSuspicion(suspicion)).toEqual([token(1, 'said 29')]);
  for (const n of numbers(1_000)) keepToken(suspicion, token(n));
  expect(endSuspicion(suspicion)).toHaveLength(200);
});

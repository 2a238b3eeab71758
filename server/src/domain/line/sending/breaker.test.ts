import { describe, expect, test } from 'vitest';
import { admit, type Breaker, CLOSED, type Permit, settle, type Verdict } from './breaker.ts';

const random = () => 0.5; // the middle of every jitter

/** A breaker with a clock. */
function start() {
  let nowMs = 1_000_000;
  let breaker: Breaker = CLOSED;
  return {
    get state() {
      return breaker.state;
    },
    wait(ms: number) {
      nowMs += ms;
    },
    /** A permit, or for how long to wait. */
    ask(): Permit | number {
      const asked = admit(breaker, nowMs, random);
      breaker = asked.breaker;
      return 'permit' in asked ? asked.permit : asked.untilMs - nowMs;
    },
    end(permit: Permit | number, verdict: Verdict) {
      if (typeof permit === 'number') throw new Error('it was not let through');
      breaker = settle(breaker, permit, verdict, { nowMs, random });
    },
    send(...verdicts: Verdict[]) {
      for (const verdict of verdicts) this.end(this.ask(), verdict);
    },
  };
}

const times = (count: number, verdict: Verdict): Verdict[] => Array.from({ length: count }, () => verdict);

describe('closed', () => {
  test('one refusal of the config opens it', () => {
    const one = start();
    one.send('works', 'refuses');
    expect(one.state).toBe('open');
    expect(one.ask()).toBe(60_000);
  });

  test('the twentieth failure to answer in a row opens it, not the nineteenth', () => {
    const one = start();
    one.send(...times(19, 'silent'));
    expect(one.state).toBe('closed');
    one.send('silent');
    expect(one.state).toBe('open');
  });

  test('a success between them begins the count anew, and what says nothing does not', () => {
    const one = start();
    one.send(...times(19, 'silent'), 'works', ...times(19, 'silent'));
    expect(one.state).toBe('closed');
    one.send('unclear', 'silent');
    expect(one.state).toBe('open');
  });
});

describe('a refusal that the same user met before', () => {
  test('opens nothing', () => {
    const one = start();
    one.send(...times(100, 'refuses_again'));
    expect(one.state).toBe('closed');
  });

  test('of a probe, does not make the wait longer', () => {
    const one = start();
    one.send('refuses');
    for (let n = 0; n < 5; n += 1) {
      one.wait(60_000);
      one.send('refuses_again');
      expect(one.ask()).toBe(60_000);
    }
    one.wait(60_000);
    one.send('works');
    expect(one.state).toBe('closed');
  });
});

describe('open', () => {
  test('nothing goes through until the probe is due, and then one at a time', () => {
    const one = start();
    one.send('refuses');
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

  test('those who come while one is tried are told the same time, as they are one job', () => {
    const opened = settle(CLOSED, CLOSED, 'refuses', { nowMs: 0, random });
    let { breaker } = admit(opened, 60_000, random);
    const untils = new Set<number>();
    for (let ms = 0; ms < 1_000; ms += 10) {
      const asked = admit(breaker, 60_000 + ms);
      breaker = asked.breaker;
      if ('untilMs' in asked) untils.add(asked.untilMs);
    }
    expect(untils.size).toBe(1);
    // And later ones another: nobody is told a time that has come.
    expect(admit(breaker, 70_000, random)).toMatchObject({ untilMs: 80_000 });
  });

  test('a clock that is put back does not put off the probe', () => {
    const opened = settle(CLOSED, CLOSED, 'refuses', { nowMs: 86_400_000, random });
    expect(admit(opened, 0, random)).toMatchObject({ permit: { epoch: expect.any(Number) } });
  });

  test('each probe that fails doubles the wait, up to ten minutes', () => {
    const one = start();
    one.send('refuses');
    const waits = [];
    for (const verdict of ['refuses', 'silent', 'refuses', 'silent', 'refuses'] as const) {
      const waitMs = Number(one.ask());
      waits.push(waitMs);
      one.wait(waitMs);
      one.send(verdict);
    }
    expect([...waits, one.ask()]).toEqual([60_000, 120_000, 240_000, 480_000, 600_000, 600_000]);
  });

  test('who does not answer is tried again soon, and less and less often; who refuses then, not before somebody can have repaired it', () => {
    const one = start();
    one.send(...times(20, 'silent'));
    const waits = [];
    for (const verdict of ['silent', 'silent', 'refuses', 'silent'] as const) {
      const waitMs = Number(one.ask());
      waits.push(waitMs);
      one.wait(waitMs);
      const probe = one.ask();
      waits.push(one.ask()); // meanwhile
      one.end(probe, verdict);
    }
    expect([...waits, one.ask()]).toEqual([
      5_000, 5_000, 10_000, 10_000, 20_000, 10_000, 60_000, 10_000, 120_000,
    ]);
  });

  test('after it has worked the wait is short again', () => {
    const one = start();
    one.send('refuses');
    one.wait(60_000);
    one.send('refuses');
    one.wait(120_000);
    one.send('works', 'refuses');
    expect(one.ask()).toBe(60_000);
  });

  test('a probe that shows nothing lets the next message be one at once', () => {
    const one = start();
    one.send('refuses');
    one.wait(60_000);
    one.send('unclear');
    expect(one.state).toBe('open');
    one.send('works');
    expect(one.state).toBe('closed');
  });

  test.each<Verdict>(['works', 'refuses', 'silent'])(
    'what was on its way before does not change it: %s',
    (verdict) => {
      const one = start();
      const before = one.ask();
      one.send('refuses');
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
  const opened = settle(CLOSED, CLOSED, 'refuses', { nowMs: 0, random: () => chance });
  expect(opened).toMatchObject({ state: 'open', probeAtMs: waitMs });
});

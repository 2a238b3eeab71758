import { describe, expect, test } from 'vitest';
import { ConditionError } from '../../../lib/expression.ts';
import { SlowRendering } from '../../../lib/template.ts';
import { parseRendering } from './rendering.ts';

/** Renders two templates, each of which calls `pause`. */
async function renderedWith(pause: () => void): Promise<unknown> {
  const input = ['{{ run.id }}!', '{{ run.id }}?'];
  const parsing = { data: { run: 'open' }, between: async () => {} } as const;
  const { renderHere } = await parseRendering(input, 'input', parsing);
  const run = {
    get id() {
      pause();
      return 'r';
    },
  };
  return renderHere({ run } as never);
}

test('a rendering fails if it works for too long, not if other processes have the processor', async () => {
  const silent = new Int32Array(new SharedArrayBuffer(4));
  expect(await renderedWith(() => Atomics.wait(silent, 0, 0, 110))).toEqual(['r!', 'r?']);
  const work = () => {
    const before = process.threadCpuUsage();
    while (process.threadCpuUsage(before).user < 110_000);
  };
  await expect(renderedWith(work)).rejects.toThrow('ms to render');
});

describe('a rendering that takes long for the event loop', () => {
  const slow = async () => {
    const input = { a: '{{ input.text | upcase | downcase | size }}' };
    const parsing = { data: { input: 'open' }, between: async () => {} } as const;
    return (await parseRendering(input, 'input', parsing)).rendering;
  };
  const text = 'x'.repeat(200_000);

  test('is done by a thread, or refused if it must not wait', async () => {
    const rendering = await slow();
    const data = { input: { text } } as never;
    expect(await rendering(data, true)).toEqual({ a: '200000' });
    await expect(rendering(data, false)).rejects.toThrow(SlowRendering);
  });

  test('is done here if something that it does not read cannot be copied', async () => {
    const user = {
      get custom_attributes() {
        throw new ConditionError('too large');
      },
    };
    expect(await (await slow())({ input: { text }, user } as never, true)).toEqual({ a: '200000' });
  });
});

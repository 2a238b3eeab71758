import { expect, test } from 'vitest';
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

import { readJson, writeJson } from '../../../lib/exact-numbers.ts';
import type { ConditionData } from '../../../lib/expression.ts';
import { allowSlowRendering, TemplateError } from '../../../lib/template.ts';
import { serveTasks } from '../../../lib/work-thread.ts';
import { parseRendering, type RenderResult, type RenderTask } from './rendering.ts';

// The thread that renders slow inputs of steps: see rendering.ts.
allowSlowRendering();
serveTasks(async (task: RenderTask) => ({ result: await render(task) }));

async function render({ value, data }: RenderTask): Promise<RenderResult> {
  const parsing = { data: undefined, between: async () => {} };
  const { renderHere } = await parseRendering(readJson(value), '', parsing);
  try {
    return { rendered: writeJson(renderHere(readJson(data) as ConditionData)) };
  } catch (error) {
    if (error instanceof TemplateError) return { problem: error.message };
    throw error;
  }
}

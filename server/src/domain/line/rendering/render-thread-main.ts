import { serveTasks } from '../../../lib/work-thread.ts';
import { type PreviewTask, renderPreview } from './render-preview.ts';

// The thread that renders previews: see preview.ts.
serveTasks(async (task: PreviewTask) => ({ result: await renderPreview(task) }));

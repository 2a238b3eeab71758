import { BaseSequencer, type TestSpecification } from 'vitest/node';

// Short files that take about 8 s or more: they start whole services, or repeat what they test. Without the
// durations of an earlier run, as in a fresh clone, the runner judges by the size of a file. These would then
// come last, and the other workers would wait for them.
const LONG = [
  'cells/backups',
  'cells/lost-cells',
  'cells/move-rows',
  'cells/processes',
  'cells/same-tests',
  'db/pulse',
  'definitions/program',
  'faults/kill-channels',
  'faults/kill-schedules',
  'faults/kill-snooze',
  'faults/postgres-channels',
  'faults/synchronous-commit',
  'faults/system-clock',
  'telemetry/nodes',
];

/** Starts these first in each project. The order of the others is that of the runner. */
export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const projects = Map.groupBy(await super.sort(files), ({ project }) => project);
    return [...projects.values()].flatMap((all) => [
      ...all.filter(isLong),
      ...all.filter((file) => !isLong(file)),
    ]);
  }
}

function isLong({ moduleId }: TestSpecification): boolean {
  return LONG.some((path) => moduleId.endsWith(`/${path}.test.ts`));
}

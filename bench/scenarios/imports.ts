import { join } from 'node:path';
import { startBelfry, until } from '../support/belfry.ts';
import { cpuOf, used } from '../support/processes.ts';
import type { Scenario } from '../support/scenario.ts';

const USERS = 100_000;
const OF_IMPORT = 10_000;
const AIM = 20_000;

/** (imports) Users with all members, imported for the first time, and again without a change. */
export const measureImports: Scenario = async (bench) => {
  const belfry = await startBelfry({ ...bench, dataDir: join(bench.dataDir, 'imports') });
  const users = bench.quick ? OF_IMPORT * 2 : USERS;
  try {
    const bodies = Array.from({ length: users / OF_IMPORT }, (_, index) => importBody(index * OF_IMPORT));
    for (const name of ['new users', 'the same users again']) {
      const before = cpuOf(belfry.pid);
      const startedMs = performance.now();
      const ids: string[] = [];
      for (const body of bodies) {
        const response = await belfry.call('POST', '/users/import', body);
        if (response.status !== 202) throw new Error(`an import returned ${response.status}`);
        ids.push((response.body as { id: string }).id);
      }
      for (const id of ids)
        await until('the import is processed', async () => {
          const { body } = await belfry.call('GET', `/imports/${id}`);
          return (body as { status: string }).status === 'processed';
        });
      const seconds = (performance.now() - startedMs) / 1_000;
      const { nodeCpuMs, postgresCpuMs } = used(before, cpuOf(belfry.pid));
      bench.figure({
        name: `import of ${users} ${name}`,
        value: users / seconds,
        unit: 'users/s',
        aim: { value: AIM, better: 'more' },
        note: `µs of CPU for each: Node ${cost(nodeCpuMs)}, PostgreSQL ${cost(postgresCpuMs)}`,
      });
    }
  } finally {
    await belfry.stop();
  }

  function cost(cpuMs: number): string {
    return ((cpuMs * 1_000) / users).toFixed(0);
  }
};

function importBody(from: number): object {
  const users = Array.from({ length: OF_IMPORT }, (_, index) => {
    const number = from + index;
    return {
      external_id: `import-${number}`,
      email: `person.${number}@example.com`,
      first_name: `First${number}`,
      last_name: `Last${number}`,
      custom_attributes: { plan: 'pro', number },
    };
  });
  return { users };
}

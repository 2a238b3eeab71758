import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

setFlagsFromString('--expose-gc');
/** Collects all garbage of this process. */
export const collectGarbage = runInNewContext('gc') as () => void;
setFlagsFromString('--no-expose-gc');

/** The bytes of live objects on the heap. */
export function heapUsed(): number {
  collectGarbage();
  return process.memoryUsage().heapUsed;
}

import type { Opened } from '../open.ts';

const TIMEOUT_MS = 5_000;

/**
 * Waits for the link to the running servers: what is published before it stands is not sent by a process that
 * ends at once. Answers whether it stands; without it they come to know within seconds.
 */
export async function linked({ bus }: Opened): Promise<boolean> {
  const late = Promise.withResolvers<false>();
  const timer = setTimeout(() => late.resolve(false), TIMEOUT_MS);
  try {
    return await Promise.race([bus.listening().then(() => true), late.promise]);
  } finally {
    clearTimeout(timer);
  }
}

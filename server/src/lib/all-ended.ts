/**
 * Waits for all, even if some reject, and returns their results. Then throws the first error: nothing of the
 * work runs any more.
 */
export async function allEnded<Result>(work: readonly Promise<Result>[]): Promise<Result[]> {
  const results = await Promise.allSettled(work);
  return results.map((result) => {
    if (result.status === 'rejected') throw result.reason;
    return result.value;
  });
}

/**
 * Waits for all, even if some reject. Returns their results, or throws the first error. A job that has failed
 * may be claimed again at once, so none of its work may still run then.
 */
export async function allEnded<Results extends readonly unknown[]>(
  work: {
    [Index in keyof Results]: Promise<Results[Index]>;
  },
): Promise<Results> {
  const results = await Promise.allSettled(work);
  return results.map((result) => {
    if (result.status === 'rejected') throw result.reason;
    return result.value;
  }) as unknown as Results;
}

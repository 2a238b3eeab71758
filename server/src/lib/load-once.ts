/**
 * Returns a function that loads something when it is first called. A failure is not kept, because it may
 * pass: while too many files are open, even a module cannot be imported. The next call tries again.
 */
export function loadOnce<Value>(load: () => Promise<Value>): () => Promise<Value> {
  let loading: Promise<Value> | undefined;
  return () => {
    loading ??= load().catch((error: unknown) => {
      loading = undefined;
      throw error;
    });
    return loading;
  };
}

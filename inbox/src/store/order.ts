/**
 * Returns a function that sends requests after earlier ones that change the same: a retry would otherwise
 * overtake a later one. The key names what a request changes; without one, it changes all.
 */
export function createOrder() {
  const last = new Map<string | undefined, Promise<unknown>>();
  return <Reply>(send: () => Promise<Reply>, key?: string): Promise<Reply> => {
    const earlier = Promise.all(key ? [last.get(key) ?? last.get(undefined)] : last.values());
    if (!key) last.clear(); // this one waits for them
    const reply = earlier.then(send);
    last.set(
      key,
      reply.catch(() => {}),
    );
    return reply;
  };
}

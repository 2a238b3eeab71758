/**
 * Returns a function that sends requests after earlier ones that change the same: a retry would otherwise
 * overtake a later one. The key names what a request changes; without one, it changes all. A request that
 * `overtakes` does not wait for those that change all: their order does not matter.
 */
export function createOrder() {
  // One for each notification that was ever changed here, which are few.
  const last = new Map<string | undefined, Promise<unknown>>();
  return <Reply>(send: () => Promise<Reply>, key?: string, overtakes = false): Promise<Reply> => {
    const earlier = key ? [last.get(key), overtakes || last.get(undefined)] : [...last.values()];
    const reply = Promise.all(earlier).then(send);
    last.set(
      key,
      reply.catch(() => {}),
    );
    return reply;
  };
}

/**
 * The JSON of a broadcast to these external ids; `described` adds address, names and attributes to each.
 */
export function broadcastBody(externalIds: readonly string[], described = false): string {
  return JSON.stringify({
    title: 'Your order is on its way',
    content: 'It arrives <b>tomorrow</b>.',
    action_url: 'https://shop.example/orders/1042',
    category: 'orders',
    recipients: externalIds.map((id, index) =>
      described
        ? {
            external_id: id,
            email: `${id}@example.com`,
            first_name: 'Ada',
            last_name: `Lovelace the ${index + 1}`,
            custom_attributes: { plan: 'pro', seats: index + 1 },
          }
        : { external_id: id },
    ),
  });
}

/** `count` different ids of `prefix0` … `prefix<users - 1>`. */
export function randomIds(prefix: string, users: number, count: number): string[] {
  const ids = new Set<string>();
  while (ids.size < count) ids.add(`${prefix}${Math.floor(Math.random() * users)}`);
  return [...ids];
}

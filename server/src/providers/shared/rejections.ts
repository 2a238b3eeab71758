/**
 * Responses by which a vendor rejects a message because of a setting, each with its possible cause.
 * Rejections that concern only the message, the address or the token are in the provider's tests.
 *
 * `destination`: a single recipient can also cause it, so it never pauses the integration by itself.
 * `integration`: only the config can cause it, so it pauses the integration. `vendor`: a temporary failure of
 * the vendor or the network.
 */
export type Rejections = readonly (readonly [
  description: string,
  reply: unknown,
  cause: 'destination' | 'integration' | 'vendor',
])[];

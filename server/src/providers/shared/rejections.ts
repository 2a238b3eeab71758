/**
 * Responses with which a vendor rejects a message because of a setting, each with its possible cause. The tests
 * of the provider have those that concern only the message, the address or the token.
 *
 * `destination`: a single recipient can cause it, too, so it never pauses the integration for others by itself.
 * `integration`: only the config can, so it pauses the integration. `vendor`: the vendor or the network, for a
 * while.
 */
export type Rejections = readonly (readonly [
  description: string,
  reply: unknown,
  cause: 'destination' | 'integration' | 'vendor',
])[];

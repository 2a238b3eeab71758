import type { Belfry } from './belfry.ts';

// Requests in flight.
const AT_A_TIME = 20;

/** Creates users `<prefix>0` … with an inbox token each. Returns their ids and tokens. */
export async function createInboxUsers(
  belfry: Belfry,
  prefix: string,
  count: number,
): Promise<{ externalIds: string[]; tokens: string[] }> {
  const externalIds = Array.from({ length: count }, (_, index) => `${prefix}${index}`);
  const tokens = externalIds.map((id) => `${id}-${'token'.repeat(13)}-${Date.now()}`);
  for (let from = 0; from < count; from += AT_A_TIME) {
    await Promise.all(
      externalIds.slice(from, from + AT_A_TIME).map(async (id, index) => {
        const { status, body } = await belfry.call(
          'PUT',
          '/channels/in_app/inbox/tokens',
          { token: tokens[from + index] },
          belfry.userJwt(id),
        );
        if (status !== 200 && status !== 201)
          throw new Error(`the response to a token was ${status}: ${JSON.stringify(body)}`);
      }),
    );
  }
  return { externalIds, tokens };
}

/** Microsoft Teams, by incoming webhooks. https://learn.microsoft.com/en-us/microsoftteams/platform/webhooks-and-connectors/how-to/add-incoming-webhook */
import { type Static, Type } from 'typebox';
import type { Finding, Integration, VerifyDeps } from './provider.ts';
import { reachable } from './reachable.ts';

const config = Type.Object(
  {
    webhook: Type.Optional(
      Type.Object(
        {
          url: Type.String({
            format: 'uri',
            description: 'The address of an incoming webhook; whoever has it can post to the channel',
          }),
        },
        {
          additionalProperties: false,
          description: 'Where messages go for users who have no destination of their own',
        },
      ),
    ),
  },
  {
    additionalProperties: false,
    examples: [{ webhook: { url: 'https://example.webhook.office.com/webhookb2/xxxxxxxx' } }],
  },
);

export const teams: Integration<typeof config> & { channel: 'teams' } = {
  name: 'teams',
  channel: 'teams',
  docs: 'https://learn.microsoft.com/en-us/microsoftteams/platform/webhooks-and-connectors/how-to/add-incoming-webhook',
  config,
  verify,
};

/** Any request would be a message in the channel; so only whether the host can be called. */
async function verify({ webhook }: Static<typeof config>, { egress }: VerifyDeps): Promise<Finding[]> {
  return webhook === undefined ? [] : reachable(egress, 'webhook.url', webhook.url);
}

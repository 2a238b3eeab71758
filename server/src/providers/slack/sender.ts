import type { Sender, SenderDeps, SlackMessage } from '../provider.ts';
import { destinationOutcome, secretsOfAddress } from '../shared/destination.ts';
import { createHttpSender } from '../shared/http-sender.ts';
import { classifySlackResponse } from './classify.ts';
import { buildSlackMessage } from './message.ts';

const CONCURRENCY = 64; // for all channels; the rate per channel is limited by slackRates

/** Creates a sender for messages of any app: each message carries its own credentials. */
export function connectSlack({ transport }: SenderDeps): Sender<SlackMessage> {
  const api = transport.vendor('PROVIDER_SLACK_API_URL', 'https://slack.com/api');
  const sender = createHttpSender({
    concurrency: CONCURRENCY,
    secrets: ({ to }: SlackMessage) =>
      'webhookUrl' in to ? secretsOfAddress(to.webhookUrl) : [to.accessToken],
    build: buildSlackMessage,
    exchange: ({ webhookUrl, ...request }) =>
      (webhookUrl === undefined ? api : transport.at(webhookUrl)).request(request),
    classify: classifySlackResponse,
  });
  return {
    ...sender,
    async send(message) {
      const outcome = await sender.send(message);
      return 'webhookUrl' in message.to ? destinationOutcome(outcome) : outcome;
    },
  };
}

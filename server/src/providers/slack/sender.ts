import type { Sender, SenderDeps, SlackMessage } from '../provider.ts';
import { destinationOutcome, secretsOfAddress } from '../shared/destination.ts';
import { createHttpSender } from '../shared/http-sender.ts';
import type { HttpResult } from '../shared/transport.ts';
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
    async exchange({ webhookUrl, ...request }, { to }) {
      if (webhookUrl !== undefined) return transport.at(webhookUrl).request(request);
      const posted = await api.request(request);
      if (!('channelId' in to) || !isNotInChannel(posted)) return posted;
      const body = JSON.stringify({ channel: to.channelId });
      const joined = await api.request({ ...request, path: '/conversations.join', body });
      const outcome = classifySlackResponse(joined);
      if (outcome.kind === 'sent') return api.request(request);
      // Without the scope `channels:join`, or in a private channel, a member has to add the app.
      return outcome.kind === 'retry' ? joined : posted;
    },
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

function isNotInChannel(response: HttpResult): boolean {
  // A success repeats the text of the message, which is rarely this word.
  if (!('text' in response) || !response.text.includes('"not_in_channel"')) return false;
  const outcome = classifySlackResponse(response);
  return outcome.kind === 'token_gone' && outcome.code === 'not_in_channel';
}

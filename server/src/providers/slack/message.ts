/** Builds messages for Slack. https://docs.slack.dev/reference/methods/chat.postMessage */

import { writeJson } from '../../lib/exact-numbers.ts';
import type { Rejection, SlackMessage } from '../provider.ts';
import { mergeOverride } from '../shared/override.ts';
import { cut } from '../shared/shrink.ts';
import type { HttpRequest } from '../shared/transport.ts';
import { cutMrkdwn, escapeMrkdwn, htmlToMrkdwn } from './mrkdwn.ts';

/** A request to the API, or to an incoming webhook at `webhookUrl`. */
export type SlackRequest = HttpRequest & { webhookUrl?: string };

// Slack's limits, in characters. `text` may have 40,000 before Slack truncates it; Slack recommends at most
// 4,000.
const MAX_HEADER = 150;
const MAX_SECTION = 3000;
const MAX_URL = 3000;
const MAX_TEXT = 4000;

/**
 * Builds the message as blocks, and once more as one text, which Slack shows in its own notifications and
 * which screen readers read.
 */
export function buildSlackMessage(message: SlackMessage): SlackRequest | Rejection {
  const { to, override } = message;
  const blocks = blocksOf(message);
  const payload = {
    ...('channelId' in to ? { channel: to.channelId } : {}),
    text: textOf(message),
    ...(blocks.length === 0 ? {} : { blocks }),
    unfurl_links: false,
    ...('channelId' in to ? { metadata: metadataOf(message) } : {}),
  };
  const merged = mergeOverride(payload, override, { locked: ['channel', 'token'] });
  if ('kind' in merged) return merged;
  const body = writeJson(merged.payload);
  if ('webhookUrl' in to)
    return {
      webhookUrl: to.webhookUrl,
      method: 'POST',
      path: '',
      headers: { 'content-type': 'application/json; charset=utf-8' },
      body,
    };
  return {
    method: 'POST',
    path: '/chat.postMessage',
    headers: {
      'content-type': 'application/json; charset=utf-8',
      authorization: `Bearer ${to.accessToken}`,
    },
    body,
  };
}

function blocksOf(message: SlackMessage): object[] {
  const header = cut(message.title.replace(/\s+/g, ' ').trim(), MAX_HEADER);
  const content = cutMrkdwn(contentOf(message), MAX_SECTION);
  const url = buttonUrlOf(message);
  const link = linkTextOf(message);
  return [
    ...(header === '' ? [] : [{ type: 'header', text: { type: 'plain_text', text: header, emoji: true } }]),
    ...(content === '' ? [] : [{ type: 'section', text: { type: 'mrkdwn', text: content } }]),
    ...(url === undefined
      ? link === undefined
        ? []
        : [{ type: 'section', text: { type: 'mrkdwn', text: link } }]
      : [
          {
            type: 'actions',
            elements: [{ type: 'button', text: { type: 'plain_text', text: message.actionLabel }, url }],
          },
        ]),
  ];
}

/** Returns the title, the content and the link. Only title and content are cut. */
function textOf(message: SlackMessage): string {
  const title = escapeMrkdwn(message.title.replace(/\s+/g, ' ').trim());
  const url = linkTextOf(message);
  const link = url === undefined ? '' : `\n${url}`;
  const words = [title === '' ? '' : `*${title}*`, contentOf(message)]
    .filter((part) => part !== '')
    .join('\n');
  return `${cutMrkdwn(words, MAX_TEXT - link.length)}${link}`;
}

/** Returns the content as mrkdwn. `text` equals the content if that is not HTML. */
function contentOf({ content, text }: SlackMessage): string {
  if (content === null) return '';
  const isHtml = content.trim() !== text.trim() && /<[a-z!/]|&[a-z#]/i.test(content);
  return isHtml ? htmlToMrkdwn(content) : escapeMrkdwn(content.trim().slice(0, MAX_TEXT + 1));
}

/** Returns the link if Slack can open it: one that it cannot open makes Slack reject the whole message. */
function linkOf({ actionUrl }: SlackMessage): string | undefined {
  const url = actionUrl === null ? null : URL.parse(actionUrl);
  const opens = url?.protocol === 'https:' || url?.protocol === 'http:';
  return opens ? url.href : undefined;
}

/** Returns the link for a button, unless it is too long for one. */
function buttonUrlOf(message: SlackMessage): string | undefined {
  const url = linkOf(message);
  return url !== undefined && url.length <= MAX_URL ? url : undefined;
}

/**
 * Returns the link as text. Percent-encoding makes six characters of one, so a link that is too long is as
 * the sender wrote it.
 */
function linkTextOf(message: SlackMessage): string | undefined {
  const url = linkOf(message);
  const written = message.actionUrl?.trim() ?? '';
  if (url === undefined) return undefined;
  if (url.length <= MAX_URL) return escapeMrkdwn(url);
  const text = escapeMrkdwn(written);
  return text.length <= MAX_SECTION && !/\s/.test(text) ? text : undefined;
}

/** Returns the message metadata, which apps of the workspace can read and which is not shown. */
function metadataOf({ notificationId, category, topic }: SlackMessage): object {
  return {
    event_type: 'notification',
    event_payload: {
      id: notificationId,
      ...(category === null ? {} : { category }),
      ...(topic === null ? {} : { topic }),
    },
  };
}

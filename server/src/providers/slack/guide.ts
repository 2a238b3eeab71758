import { type Guide, response } from '../shared/guide.ts';

const api = (error: string) => [`\`${error}\` from the API`, response(200, { ok: false, error })] as const;
const webhook = (status: number, word: string) =>
  [`${status} \`${word}\` from a webhook`, response(status, word)] as const;

export const guide: Guide = {
  override: {
    into: 'the body of `chat.postMessage`, or what is posted to the webhook',
    locked: ['`channel`', '`token`'],
  },
  limits: [
    ['title', '150 characters', 'it is cut and ends in `…`'],
    ['content', '3000 characters', 'it is cut and ends in `…`'],
    [
      'link',
      '3000 characters when it is encoded, `https:` or `http:`',
      'a longer one is shown as text, if that has 3000 characters; others are left out',
    ],
  ],
  responses: [
    ['`ok: true` from the API', response(200, { ok: true, ts: '1782993600.000100' })],
    ['200 `ok` from a webhook', response(200, 'ok')],
    api('channel_not_found'),
    api('is_archived'),
    api('not_in_channel'),
    api('token_revoked'),
    api('account_inactive'),
    api('missing_scope'),
    api('restricted_action'),
    api('invalid_blocks'),
    api('msg_too_long'),
    api('ratelimited'),
    api('fatal_error'),
    api('token_expired'),
    webhook(404, 'no_service'),
    webhook(403, 'invalid_token'),
    webhook(410, 'channel_is_archived'),
    webhook(403, 'action_prohibited'),
    webhook(400, 'invalid_payload'),
    ['429 with `Retry-After: 30`', response(429, '', { 'retry-after': '30' })],
  ],
};

import { type Guide, response, SHORTENED } from '../shared/guide.ts';

export const guide: Guide = {
  override: {
    into: 'the message with its card; an override with `"type": "AdaptiveCard"` replaces the card',
    locked: ['the URL of the webhook'],
  },
  limits: [['message', '28 KB', SHORTENED]],
  responses: [
    ['202', response(202)],
    ['200 `1`', response(200, '1')],
    [
      '200 “Microsoft Teams endpoint returned HTTP error 429”',
      response(200, 'Microsoft Teams endpoint returned HTTP error 429'),
    ],
    [
      '200 “Bad payload received by generic incoming webhook.”',
      response(200, 'Bad payload received by generic incoming webhook.'),
    ],
    ['400 `WorkflowTriggerIsNotEnabled`', response(400, { error: { code: 'WorkflowTriggerIsNotEnabled' } })],
    ['400', response(400)],
    ['401, 403', response(403)],
    ['404, 410', response(410)],
    ['413', response(413)],
    ['429 with `Retry-After: 30`', response(429, '', { 'retry-after': '30' })],
    ['500', response(500)],
  ],
};

import { answered, type Guide, SHORTENED } from '../shared/guide.ts';
import type { teams } from './index.ts';

export const teamsGuide: Guide<typeof teams> = {
  title: 'Microsoft Teams',
  override: {
    into: 'the message with its card; an override that is a whole card (`"type": "AdaptiveCard"`) takes the place of ours',
    locked: ['the address of the webhook'],
  },
  limits: [['message', '28 KB', SHORTENED]],
  answers: [
    ['202', answered(202)],
    ['200 `1`', answered(200, '1')],
    [
      '200 “Microsoft Teams endpoint returned HTTP error 429”',
      answered(200, 'Microsoft Teams endpoint returned HTTP error 429'),
    ],
    [
      '200 “Bad payload received by generic incoming webhook.”',
      answered(200, 'Bad payload received by generic incoming webhook.'),
    ],
    ['400 `WorkflowTriggerIsNotEnabled`', answered(400, { error: { code: 'WorkflowTriggerIsNotEnabled' } })],
    ['400', answered(400)],
    ['401, 403', answered(403)],
    ['404, 410', answered(410)],
    ['413', answered(413)],
    ['429 with `Retry-After: 30`', answered(429, '', { 'retry-after': '30' })],
    ['500', answered(500)],
  ],
};

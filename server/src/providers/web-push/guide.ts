import { answered, type Guide } from '../shared/guide.ts';
import type { webPush } from './index.ts';

export const webPushGuide: Guide<typeof webPush> = {
  title: 'Web push',
  override: {
    into: 'the JSON that the service worker reads',
    locked: ['the endpoint and the keys of the subscription', '`authorization`'],
    notes: '`ttl` (seconds), `urgency` and `topic_header` become headers; `null` leaves the latter two out.',
  },
  limits: [
    [
      'JSON',
      '2641 bytes, which every push service takes; with `custom_attributes` 3993, which nearly all take',
      'the text is cut to 1000 characters, then `custom_attributes` are left out, then the text is cut further; after a 413 once more',
    ],
    ['time to live', '28 days', 'the override is refused'],
  ],
  answers: [
    ['201', answered(201, '', { location: 'https://push.example/m/1' })],
    ['404', answered(404)],
    ['410', answered(410)],
    [
      '403, the keys are others than the browser subscribed with',
      answered(403, 'the VAPID credentials do not correspond'),
    ],
    ['401', answered(401)],
    ['403', answered(403)],
    ['400 with errno 110 (Mozilla)', answered(400, { errno: 110 })],
    ['400', answered(400)],
    ['413', answered(413)],
    ['429 with `Retry-After: 60`', answered(429, '', { 'retry-after': '60' })],
    ['503 with errno 202 (Mozilla)', answered(503, { errno: 202 })],
    ['500', answered(500)],
  ],
};

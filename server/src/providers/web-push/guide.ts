import { type Guide, response } from '../shared/guide.ts';

export const guide: Guide = {
  override: {
    into: 'the JSON that the service worker reads',
    locked: ['the endpoint and the keys of the subscription', '`authorization`'],
    notes: '`ttl` (seconds), `urgency` and `topic_header` become headers; `null` omits the latter two.',
  },
  limits: [
    [
      'JSON',
      '2641 bytes, which every push service accepts; with `custom_attributes` 3993, which nearly all accept',
      'the text is cut to 1000 characters, then `custom_attributes` are left out, then the text is cut more',
    ],
    ['time to live', '28 days', 'the override is rejected'],
  ],
  responses: [
    ['201', response(201, '', { location: 'https://push.example/m/1' })],
    ['201 with `X-WNS-Status: dropped` (Windows)', response(201, '', { 'x-wns-status': 'dropped' })],
    [
      '201 with `X-WNS-Status: channelthrottled` (Windows)',
      response(201, '', { 'x-wns-status': 'channelthrottled' }),
    ],
    ['404', response(404)],
    ['410', response(410)],
    ['403, the browser subscribed with other keys', response(403, 'the VAPID credentials do not correspond')],
    ['401', response(401)],
    ['403', response(403)],
    ['400 with errno 110 (Mozilla)', response(400, { errno: 110 })],
    ['400', response(400)],
    ['413', response(413)],
    ['406 with `Retry-After: 900` (Windows)', response(406, '', { 'retry-after': '900' })],
    ['429 with `Retry-After: 60`', response(429, '', { 'retry-after': '60' })],
    ['503 with errno 202 (Mozilla)', response(503, { errno: 202 })],
    ['500', response(500)],
  ],
};

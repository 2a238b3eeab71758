import { type Guide, response } from '../shared/guide.ts';
import type { HttpResult } from '../shared/transport.ts';

export const guide: Guide<HttpResult> = {
  limits: [],
  responses: [
    ['any 2xx', response(202)],
    ['400, 422 and other 4xx', response(422)],
    ['401, 403, 404, 410', response(410)],
    ['408, 425, 429', response(429)],
    ['a redirect', response(307)],
    ['500, 503', response(503)],
    ['502, 504', response(504)],
    [
      'a certificate that does not prove the host',
      { error: { code: 'DEPTH_ZERO_SELF_SIGNED_CERT', message: 'self-signed certificate' }, written: false },
    ],
  ],
};

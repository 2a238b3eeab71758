import { answered, type Guide } from '../shared/guide.ts';
import type { pingEmail } from './index.ts';

export const pingEmailGuide: Guide<typeof pingEmail> = {
  title: 'A mailer of your own',
  limits: [],
  answers: [
    ['any 2xx', answered(202)],
    ['400, 422 and other 4xx', answered(422)],
    ['401, 403, 404, 410', answered(410)],
    ['408, 425, 429', answered(429)],
    ['a redirect', answered(307)],
    ['500, 503', answered(503)],
    ['502, 504', answered(504)],
    [
      'a certificate that does not prove the host',
      { error: { code: 'DEPTH_ZERO_SELF_SIGNED_CERT', message: 'self-signed certificate' }, written: false },
    ],
  ],
};

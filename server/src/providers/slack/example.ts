import { response } from '../shared/guide.ts';
import type { Rejections } from '../shared/rejections.ts';

/** The smallest and the largest config that a project can save. For tests. */
export const example = {
  minimal: slackApp('A', '1.2'),
  full: slackApp('A0123456789', '1234567890.9876543210'),
};

function slackApp(appId: string, clientId: string): object {
  return {
    app_id: appId,
    client_id: clientId,
    client_secret: 'c'.repeat(32),
    signing_secret: 's'.repeat(32),
  };
}

// An installation belongs to one workspace, a webhook to one channel.
export const rejections: Rejections = [
  ...['missing_scope', 'not_allowed_token_type', 'not_authed'].map(
    (error) => [error, response(200, { ok: false, error }), 'destination'] as const,
  ),
  ['ratelimited', response(200, { ok: false, error: 'ratelimited' }), 'vendor'],
];

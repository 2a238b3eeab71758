import { response } from '../shared/guide.ts';
import type { Rejections } from '../shared/rejections.ts';

/** The smallest and the largest config that a project can save. For tests. */
export const example = {
  minimal: {},
  full: { webhook: { url: 'https://x.webhook.office.com/webhookb2/1' } },
};

export const rejections: Rejections = [['429', response(429), 'vendor']];

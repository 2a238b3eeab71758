import { response } from '../shared/guide.ts';
import type { Rejections } from '../shared/rejections.ts';

/** The smallest and the largest config that a project can save. For tests. */
export const example = {
  minimal: { url: 'http://h' },
  full: { url: `https://b.de/${'x'.repeat(87)}`, max_per_second: 2.5 },
};

// The mailer is the project's own. It rejects a single recipient with another status of 4xx.
export const rejections: Rejections = [401, 403, 404, 410].map(
  (status) => [`${status}`, response(status), 'integration'] as const,
);

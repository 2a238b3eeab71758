/** The smallest and the largest config that a project can save. For tests. */
export const example = {
  minimal: { webhook_signing_secret: 'x' },
  full: { webhook_signing_secret: 'x'.repeat(100) },
};

/** The smallest and the largest config that a project can save. For tests. */
export const example = {
  minimal: {},
  full: { webhook: { url: 'https://x.webhook.office.com/webhookb2/1' } },
};

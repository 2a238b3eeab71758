const mailbox = { email: 'a@b.de', name: null };

/** The smallest and the largest config that a project can save. For tests. */
export const example = {
  minimal: { api_key: '' },
  full: {
    api_key: 'SG.x',
    from: mailbox,
    reply_to: { email: 'c@d.de' },
    region: 'eu',
    webhook_public_key: 'MFkw',
    max_per_second: 10_000,
  },
};

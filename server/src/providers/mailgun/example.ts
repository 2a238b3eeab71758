const mailbox = { email: 'a@b.de', name: null };

/** The smallest and the largest config that a project can save. For tests. */
export const example = {
  minimal: { api_key: 'k', domain: 'd', region: 'us' },
  full: {
    api_key: 'k',
    domain: 'mg.b.de',
    region: 'eu',
    from: mailbox,
    webhook_signing_key: 'hunter22',
    max_per_second: 100,
  },
};

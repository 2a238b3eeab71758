const mailbox = { email: 'a@b.de', name: null };

/** The smallest and the largest config that a project can save. For tests. */
export const example = {
  minimal: { key_id: 'k', secret_key: 's', region: 'r' },
  full: {
    key_id: 'AKIA',
    secret_key: 'hunter22',
    region: 'eu-west-1',
    from: mailbox,
    configuration_set: 'default',
    topic_arn: 'arn:aws:sns:eu-west-1:123456789012:mail',
    max_per_second: 14,
  },
};

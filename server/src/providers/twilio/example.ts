/** The smallest and the largest config that a project can save. For tests. */
export const example = {
  minimal: { account_sid: 'a', api_key: 'k', api_secret: 's', from: '+1' },
  full: {
    account_sid: 'a'.repeat(100),
    api_key: 'k'.repeat(100),
    api_secret: 's'.repeat(100),
    from: '+12345678901234',
    auth_token: 'hunter22',
    max_per_second: 0.1,
  },
};

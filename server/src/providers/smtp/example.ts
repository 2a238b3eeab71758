/** The smallest and the largest config that a project can save. For tests. */
export const example = {
  minimal: { host: 'h', port: 25, username: '', password: '', from: { email: 'a@b.de' } },
  full: {
    host: 'smtp.example.com',
    port: 65535,
    username: 'u',
    password: 'hunter22',
    from: { email: 'a@b.de', name: 'A' },
    reply_to: { email: 'c@d.de', name: 'C' },
    security: 'starttls',
    max_per_second: 1,
  },
};

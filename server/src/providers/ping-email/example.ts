/** The smallest and the largest config that a project can save. For tests. */
export const example = {
  minimal: { url: 'http://h' },
  full: { url: `https://b.de/${'x'.repeat(87)}`, max_per_second: 2.5 },
};

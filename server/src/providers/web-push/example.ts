/** The smallest and the largest config that a project can save. For tests. */
export const example = {
  minimal: { public_key: 'p'.repeat(8), private_key: 's'.repeat(8) },
  full: { public_key: 'p'.repeat(128), private_key: 's'.repeat(128) },
};

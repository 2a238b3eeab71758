/** The smallest and the largest config that a project can save. For tests. */
export const example = { minimal: { enabled: false }, full: { enabled: true } };

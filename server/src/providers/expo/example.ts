/** The smallest and the largest config that a project can save. For tests. */
export const example = { minimal: { access_token: 'x' }, full: { access_token: 'expo-token' } };

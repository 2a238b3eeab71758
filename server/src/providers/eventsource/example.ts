/** The smallest and the largest config that a project can save. For tests. */
export const example = {
  minimal: { source: '' },
  full: { source: 'shop', webhook_signing_secret: `whsec_${'A'.repeat(43)}=` },
};

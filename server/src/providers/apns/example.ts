const P8 = '-----BEGIN PRIVATE KEY-----\nMIGTAgEA+/\nBQ==\n-----END PRIVATE KEY-----\n';

/** The smallest and the largest config that a project can save. For tests. */
export const example = {
  minimal: {
    app_id: 'com.example',
    badge: 'unread',
    certificate: P8,
    key_id: 'ABCDEFGHIJ',
    team_id: '0123456789',
  },
  full: {
    app_id: 'com.example.my-app',
    badge: 'unseen',
    certificate: P8.trim(),
    key_id: 'ABCDEFGHIJ',
    team_id: '0123456789',
    payload_version: '2',
  },
};

/** The smallest and the largest config that a project can save. For tests. */
export const example = {
  minimal: slackApp('A', '1.2'),
  full: slackApp('A0123456789', '1234567890.9876543210'),
};

function slackApp(appId: string, clientId: string): object {
  return {
    app_id: appId,
    client_id: clientId,
    client_secret: 'c'.repeat(32),
    signing_secret: 's'.repeat(32),
  };
}

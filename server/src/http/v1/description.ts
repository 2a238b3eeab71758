/** What the published description of v1 says of the API as a whole. */
export const V1_DESCRIPTION = {
  info: {
    title: 'Belfry (version 1)',
    version: '1.0.0',
    description: `The deprecated version of the API. It changes the same data as [version 2](/docs/api), so
that you can move one call after another.

Bodies have the name of their entity as their only member: \`{"user": {…}}\`. Every error is
\`{"errors": [{"code", "message"}]}\` and lists all problems of the request. Every response has the headers
\`Deprecation\` and \`Link\`; the link leads to a guide.`,
  },
  servers: [{ url: '/' }],
  tags: [
    { name: 'Broadcasts', description: 'One message to many users.' },
    { name: 'Notifications', description: 'The inbox of a user.' },
    { name: 'Users', description: 'The people that a project notifies.' },
    { name: 'Imports', description: 'Many users at once.' },
    { name: 'Preferences', description: 'The categories and channels that a user wants.' },
    { name: 'Topics', description: 'The topics that a user subscribes to.' },
    { name: 'Channel tokens', description: 'The devices and browsers of a user.' },
    { name: 'Configuration', description: 'What an inbox needs to know of the project.' },
    { name: 'Metrics', description: 'How many broadcasts were sent, and how many users they addressed.' },
  ],
  securitySchemes: {
    APIKey: header('API-KEY', 'The API key of the project, which is public.'),
    APISecret: header('API-SECRET', 'The API secret of the project. Keep it on your servers.'),
    UserExternalId: header('USER-EXTERNAL-ID', 'The id of the user in your system.'),
    UserEmail: header(
      'USER-EMAIL',
      'The e-mail address of the user. If the external id is sent as well, the external id decides. With ' +
        'its HMAC, the address is ignored, because the HMAC does not prove it.',
    ),
    UserHMAC: header(
      'USER-HMAC',
      'The HMAC-SHA256 of the external id (or else of the address) with the API secret, as Base64. Not ' +
        'needed with the API secret, or if the project does not require it (`belfry project hmac`).',
    ),
    UserJWT: {
      type: 'http' as const,
      scheme: 'bearer' as const,
      bearerFormat: 'JWT' as const,
      description: 'A User JWT, as in version 2, instead of all other headers.',
    },
  },
};

function header(name: string, description: string) {
  return { type: 'apiKey' as const, in: 'header' as const, name: `X-SERVICE-${name}`, description };
}

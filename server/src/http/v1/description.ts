/** What the published description of v1 says of the API as a whole. */
export const V1_DESCRIPTION = {
  info: {
    title: 'Belfry (version 1)',
    version: '1.0.0',
    description: `The deprecated version of the API. It changes the same data as [version 2](/docs), so that you
can move one call after another.

Bodies have the name of their entity as their only member: \`{"user": {…}}\`. Every error is
\`{"errors": [{"code", "message"}]}\` and lists all problems of the request. Every response has the headers
\`Deprecation\` and \`Link\`; the link leads to a guide.`,
  },
  servers: [{ url: '/' }],
  tags: [],
  securitySchemes: {
    APISecret: header(
      'API-SECRET',
      'The API secret of the project, beside `X-SERVICE-API-KEY`. Keep it on your servers.',
    ),
    UserHMAC: header(
      'USER-HMAC',
      'Authenticates a user, beside `X-SERVICE-API-KEY` and `X-SERVICE-USER-EXTERNAL-ID` or ' +
        '`X-SERVICE-USER-EMAIL`, of which the external id wins: the HMAC-SHA256 of that value with the API ' +
        'secret, as Base64. Not needed with the API secret, or if the project does not require it ' +
        '(`belfry project hmac`). A User JWT (`Authorization: Bearer …`) is accepted instead of all of them.',
    ),
  },
};

function header(name: string, description: string) {
  return { type: 'apiKey' as const, in: 'header' as const, name: `X-SERVICE-${name}`, description };
}

// The errors of the SDK and how to distinguish them.
// prints: 422 validation_failed
// prints: Param 'title' is missing
// prints: aborted
// prints: network_error
import { BelfryError, ProjectClient } from '@belfry/sdk';

const { BELFRY_URL = 'http://127.0.0.1:3000/v2', BELFRY_PROJECT_JWT = '' } = process.env;
const belfry = new ProjectClient({ baseUrl: BELFRY_URL, token: BELFRY_PROJECT_JWT });

try {
  await belfry.request({
    method: 'POST',
    path: '/broadcasts',
    body: { recipients: [{ external_id: '42' }] },
  });
} catch (error) {
  if (!(error instanceof BelfryError)) throw error;
  console.log(error.status, error.code); // error.requestId identifies it in the server's log
  for (const { message } of error.errors) console.log(message);
}

// An aborted call rejects with the reason of the signal, as with fetch.
await belfry.users.list({}, { signal: AbortSignal.abort() }).catch((error: Error) => {
  console.log(error.name === 'AbortError' ? 'aborted' : error);
});

// No server listens there, so there is no response.
const nowhere = new ProjectClient({ baseUrl: 'http://127.0.0.1:1/v2', token: 'any', maxRetries: 0 });
await nowhere.users.list().catch((error: BelfryError) => console.log(error.code));

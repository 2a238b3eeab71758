// Loops over all users, and then reads a single page.
// prints: all users: 3
// prints: newest: user-3, user-2
import { ProjectClient } from '@belfry/sdk';

const { BELFRY_URL = 'http://127.0.0.1:3000/v2', BELFRY_PROJECT_JWT = '' } = process.env;
const belfry = new ProjectClient({ baseUrl: BELFRY_URL, token: BELFRY_PROJECT_JWT });

for (const external_id of ['user-1', 'user-2', 'user-3']) await belfry.users.save({ external_id });

let count = 0;
for await (const user of belfry.users.list({ limit: 100, query: 'user-' })) {
  if (user.external_id !== null) count += 1;
}
console.log(`all users: ${count}`);

const page = await belfry.users.list({ limit: 2, query: 'user-' });
console.log(`newest: ${page.data.map((user) => user.external_id).join(', ')}`);
const older = await page.next();
console.log(`and before: ${older?.data.map((user) => user.external_id).join(', ')}`);

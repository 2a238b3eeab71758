// What an inbox does: lists what is there, follows new notifications, marks one as read.
// The same code runs in a browser, with a token that your server made.
// prints: 0 unread
// prints: notifications/new: Hello, Ada
// prints: notifications/read
import { createUserToken, ProjectClient, UserClient } from '@belfry/sdk';

const { BELFRY_URL: baseUrl = 'http://127.0.0.1:3000/v2', BELFRY_PROJECT_JWT = '' } = process.env;
const { BELFRY_API_KEY: apiKey = '', BELFRY_API_SECRET: apiSecret = '' } = process.env;

// On your server. In a browser, a function that fetches a fresh token: it is called before every attempt.
const token = () => createUserToken({ apiKey, apiSecret, externalId: 'ada' });

const inbox = new UserClient({ baseUrl, token });
const { count } = await inbox.notifications.countUnread();
console.log(`${count} unread`);

const belfry = new ProjectClient({ baseUrl, token: BELFRY_PROJECT_JWT });
const events = inbox.notifications.stream({
  // Sends something as soon as the stream is open, so that this example has something to show.
  onOpen: () => void belfry.broadcasts.create({ title: 'Hello, Ada', recipients: [{ external_id: 'ada' }] }),
});
for await (const event of events) {
  if (event.name === 'resync') continue; // events were missed: list the notifications again
  if (event.name === 'inbox/theme') continue; // the config of the inbox was saved
  const title = event.data.notification?.title;
  console.log(title === undefined ? event.name : `${event.name}: ${title}`);
  if (event.name === 'notifications/new') await inbox.notifications.read(event.data.id);
  if (event.name === 'notifications/read') break; // the connection is closed with the loop
}

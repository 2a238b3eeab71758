// biome-ignore-all lint/performance/noBarrelFile: this is the list of providers.
/** The list of providers, one line each, by the name that an integration is stored under. */
export { apns } from './apns/index.ts';
export { eventsource } from './eventsource/index.ts';
export { expo } from './expo/index.ts';
export { fcm } from './fcm/index.ts';
export { github } from './github/index.ts';
export { inbox } from './inbox/index.ts';
export { mailgun } from './mailgun/index.ts';
export { pingEmail as ping_email } from './ping-email/index.ts';
export { sendgrid } from './sendgrid/index.ts';
export { ses } from './ses/index.ts';
export { slack } from './slack/index.ts';
export { slackbot } from './slackbot/index.ts';
export { smtp } from './smtp/index.ts';
export { stripe } from './stripe/index.ts';
export { teams } from './teams/index.ts';
export { twilio } from './twilio/index.ts';
export { webPush as web_push } from './web-push/index.ts';

import { apnsGuide } from './apns/guide.ts';
import { expoGuide } from './expo/guide.ts';
import { fcmGuide } from './fcm/guide.ts';
import type { integrations } from './index.ts';
import { mailgunGuide } from './mailgun/guide.ts';
import { pingEmailGuide } from './ping-email/guide.ts';
import { sendgridGuide } from './sendgrid/guide.ts';
import { sesGuide } from './ses/guide.ts';
import type { Guide } from './shared/guide.ts';
import { slackGuide } from './slack/guide.ts';
import { smtpGuide } from './smtp/guide.ts';
import { teamsGuide } from './teams/guide.ts';
import { twilioGuide } from './twilio/guide.ts';
import { webPushGuide } from './web-push/guide.ts';

type All = typeof integrations;
type Delivering = { [Name in keyof All]: All[Name] extends { classify: unknown } ? Name : never }[keyof All];

/** The guide of every provider that delivers, by the name that it is stored under. */
export const guides: {
  [Name in Delivering]: All[Name] extends { classify(reply: never): unknown } ? Guide<All[Name]> : never;
} = {
  apns: apnsGuide,
  expo: expoGuide,
  fcm: fcmGuide,
  mailgun: mailgunGuide,
  ping_email: pingEmailGuide,
  sendgrid: sendgridGuide,
  ses: sesGuide,
  slack: slackGuide,
  slackbot: { ...slackGuide, title: 'The server’s own Slack app' },
  smtp: smtpGuide,
  teams: teamsGuide,
  twilio: twilioGuide,
  web_push: webPushGuide,
};

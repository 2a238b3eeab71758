import type { integrations } from '../index.ts';
import { apnsGuide } from './apns.ts';
import { expoGuide } from './expo.ts';
import { fcmGuide } from './fcm.ts';
import type { Guide } from './guide.ts';
import { mailgunGuide } from './mailgun.ts';
import { pingEmailGuide } from './ping-email.ts';
import { sendgridGuide } from './sendgrid.ts';
import { sesGuide } from './ses.ts';
import { slackGuide } from './slack.ts';
import { smtpGuide } from './smtp.ts';
import { teamsGuide } from './teams.ts';
import { twilioGuide } from './twilio.ts';
import { webPushGuide } from './web-push.ts';

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

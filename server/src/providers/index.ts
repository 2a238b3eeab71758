/** The only list of providers: an integration whose name is not here does not exist. */
import type { Static } from 'typebox';
import { apns } from './apns/index.ts';
import { eventsource } from './eventsource/index.ts';
import { expo } from './expo/index.ts';
import { fcm } from './fcm/index.ts';
import { github } from './github/index.ts';
import { inbox } from './inbox/index.ts';
import { mailgun } from './mailgun/index.ts';
import { pingEmail } from './ping-email/index.ts';
import type { AnyProvider, Integration } from './provider.ts';
import { sendgrid } from './sendgrid/index.ts';
import { ses } from './ses/index.ts';
import { slack } from './slack/index.ts';
import { slackbot } from './slack/slackbot.ts';
import { smtp } from './smtp/index.ts';
import { stripe } from './stripe/index.ts';
import { teams } from './teams/index.ts';
import { twilio } from './twilio/index.ts';
import { webPush } from './web-push/index.ts';

/** Every kind of integration that a project can set up, by the name that it is stored under. */
export const integrations = {
  apns,
  eventsource,
  expo,
  fcm,
  github,
  inbox,
  mailgun,
  ping_email: pingEmail,
  sendgrid,
  ses,
  slack,
  slackbot,
  smtp,
  stripe,
  teams,
  twilio,
  web_push: webPush,
};
export type IntegrationName = keyof typeof integrations;
export type IntegrationConfig<Name extends IntegrationName> = Static<(typeof integrations)[Name]['config']>;

/** What clients call an integration: its name in paths, lists and events. */
export function wireNameOf(name: string, brand: string): string {
  const integration: Integration | undefined = isKnown(name)
    ? (integrations[name] as Integration)
    : undefined;
  return (integration?.wireName ?? name).replace('<brand>', brand);
}

function isKnown(name: string): name is IntegrationName {
  return Object.hasOwn(integrations, name);
}

/**
 * Those that deliver, by the name that they are stored under; `channel` says what on. Their configs differ,
 * so a sender is made from the config that was saved under the same name.
 */
export const delivering: ReadonlyMap<string, AnyProvider> = new Map(
  [apns, expo, fcm, mailgun, pingEmail, sendgrid, ses, slack, slackbot, smtp, teams, twilio, webPush].map(
    (provider) => [provider.name, provider] as const,
  ),
);

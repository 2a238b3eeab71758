import { generateKeyPairSync } from 'node:crypto';
import { createVapidKeys } from '../../src/providers/web-push/vapid.ts';
import { type ApnsStandIn, startApnsStandIn } from './apns-stand-in.ts';
import { type ExpoStandIn, startExpoStandIn } from './expo-stand-in.ts';
import { type FcmStandIn, startFcmStandIn } from './fcm-stand-in.ts';
import { integrationConfigs } from './integration-configs.ts';
import type { TestProject } from './service.ts';
import { type SlackStandIn, startSlackStandIn } from './slack-stand-in.ts';
import { type SmtpStandIn, startSmtpStandIn } from './smtp-stand-in.ts';
import { startVendor, type VendorStandIn } from './vendor-stand-in.ts';
import { startWebPushStandIn, type WebPushStandIn } from './web-push-stand-in.ts';

/** A vendor for every channel, each on loopback. */
export interface Vendors {
  mail: SmtpStandIn;
  /** Text messages. It accepts them unless a test changes its reply. */
  phone: VendorStandIn;
  apple: ApnsStandIn;
  google: FcmStandIn;
  expo: ExpoStandIn;
  browsers: WebPushStandIn;
  slack: SlackStandIn;
  /** A workflow of Teams, at any path. It accepts messages unless a test changes its reply. */
  teams: VendorStandIn;
  /** The settings with their addresses. */
  settings: Record<string, string>;
  /** The configs of their integrations. */
  configs: Record<Configured, object>;
  /** Saves these integrations, or all. */
  setUp(project: TestProject, names?: readonly Configured[]): Promise<void>;
  /** Forgets what was sent, and accepts messages. Devices that a test made fail continue to fail. */
  reset(): void;
  stop(): Promise<void>;
}

type Configured =
  | 'smtp'
  | 'twilio'
  | 'apns'
  | 'fcm'
  | 'expo'
  | 'web_push'
  | 'slack'
  | 'service_slackbot'
  | 'teams';

const MAIL_ACCOUNT = { username: 'mailer', password: 'open sesame' };
const EXPO_TOKEN = 'expo-access-token';
const APP_ID = 'com.example.app';
/** The project's own Slack app. */
export const SLACK_APP = {
  app_id: 'A0TEST',
  client_id: '11.22',
  client_secret: 'c'.repeat(32),
  signing_secret: 's'.repeat(32),
};
/** The Slack app of the server. */
export const SERVERS_SLACK_APP = {
  SLACKBOT_APP_ID: 'A0SERVER',
  SLACKBOT_CLIENT_ID: '33.44',
  SLACKBOT_CLIENT_SECRET: 'd'.repeat(32),
  SLACKBOT_SIGNING_SECRET: 't'.repeat(32),
};

/** Twilio's reply to a message that it accepts. */
export const QUEUED = { status: 201, body: { sid: 'SM0123456789abcdef0123456789abcdef', status: 'queued' } };

export async function startVendors(): Promise<Vendors> {
  const apple = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const account = generateKeyPairSync('rsa', { modulusLength: 2048 });
  const apnsConfig = {
    app_id: APP_ID,
    badge: 'unread',
    certificate: apple.privateKey.export({ type: 'pkcs8', format: 'pem' }),
    key_id: 'ABCDEFGHIJ',
    team_id: '0123456789',
  };
  const clientEmail = 'push@shop-1.iam.gserviceaccount.com';
  const [mail, phone, apns, google, expo, browsers, slack, teams] = await Promise.all([
    startSmtpStandIn({ account: MAIL_ACCOUNT }),
    startVendor(),
    startApnsStandIn({
      teamId: apnsConfig.team_id,
      keyId: apnsConfig.key_id,
      publicKey: apple.publicKey,
      topics: [APP_ID],
    }),
    startFcmStandIn({ projectId: 'shop-1', clientEmail, privateKey: account.privateKey }),
    startExpoStandIn({ accessToken: EXPO_TOKEN }),
    startWebPushStandIn(),
    startSlackStandIn(),
    startVendor(),
  ]);
  phone.reply(QUEUED);
  teams.reply({ status: 202 });
  slack.apps.set(SLACK_APP.client_id, SLACK_APP.client_secret);
  slack.apps.set(SERVERS_SLACK_APP.SLACKBOT_CLIENT_ID, SERVERS_SLACK_APP.SLACKBOT_CLIENT_SECRET);
  const configs: Vendors['configs'] = {
    smtp: {
      host: '127.0.0.1',
      port: mail.port,
      ...MAIL_ACCOUNT,
      from: { email: 'news@example.com' },
      security: 'none',
    },
    twilio: { account_sid: 'AC1', api_key: 'SK1', api_secret: 'secret', from: '+14155550100' },
    apns: apnsConfig,
    fcm: {
      ...integrationConfigs.fcm.full,
      project_id: 'shop-1',
      client_email: clientEmail,
      private_key: account.privateKey.export({ type: 'pkcs8', format: 'pem' }),
      token_uri: google.tokenUri,
      universe_domain: 'googleapis.com',
    },
    expo: { access_token: EXPO_TOKEN },
    web_push: createVapidKeys(),
    slack: SLACK_APP,
    service_slackbot: { enabled: true },
    teams: { webhook: { url: `${teams.address}/default` } },
  };
  return {
    mail,
    phone,
    apple: apns,
    google,
    expo,
    browsers,
    slack,
    teams,
    settings: {
      PROVIDER_TWILIO_BASE_URL: phone.address,
      PROVIDER_APNS_BASE_URL: apns.address,
      PROVIDER_FCM_BASE_URL: google.address,
      PROVIDER_EXPO_BASE_URL: expo.address,
      PROVIDER_SLACK_API_URL: slack.apiUrl,
      ...SERVERS_SLACK_APP,
    },
    configs,
    async setUp(project, names = Object.keys(configs) as Configured[]) {
      for (const name of names) {
        const { status, body } = await project.call('PUT', `/integrations/${name}`, configs[name]);
        if (status !== 200) throw new Error(`${name}: ${JSON.stringify(body)}`);
      }
    },
    reset() {
      const lists = [
        mail.received,
        apns.pushes,
        google.messages,
        expo.messages,
        slack.posted,
        slack.tokenRequests,
      ];
      for (const list of lists) list.length = 0;
      mail.heal();
      phone.reply(QUEUED);
      teams.reply({ status: 202 });
      slack.expired.clear();
      slack.refusals.clear();
      slack.rotate = undefined;
    },
    async stop() {
      const all = [mail, phone, apns, google, expo, browsers, teams];
      await Promise.all([...all.map((one) => one.stop()), slack.close()]);
    },
  };
}

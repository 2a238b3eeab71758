import type { IntegrationName } from '../../src/providers/index.ts';

const mailbox = { email: 'a@b.de', name: null };
const P8 = '-----BEGIN PRIVATE KEY-----\nMIGTAgEA+/\nBQ==\n-----END PRIVATE KEY-----\n';

/** For every provider the least and the most that can be configured. */
export const integrationConfigs: Record<IntegrationName, { minimal: object; full: object }> = {
  apns: {
    minimal: {
      app_id: 'com.example',
      badge: 'unread',
      certificate: P8,
      key_id: 'ABCDEFGHIJ',
      team_id: '0123456789',
    },
    full: {
      app_id: 'com.example.my-app',
      badge: 'unseen',
      certificate: P8.trim(),
      key_id: 'ABCDEFGHIJ',
      team_id: '0123456789',
      payload_version: '2',
    },
  },
  eventsource: {
    minimal: { source: '' },
    full: { source: 'shop', webhook_signing_secret: `whsec_${'A'.repeat(43)}=` },
  },
  expo: { minimal: { access_token: 'x' }, full: { access_token: 'expo-token' } },
  fcm: {
    minimal: serviceAccount(P8),
    full: serviceAccount('-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----'),
  },
  github: { minimal: { webhook_signing_secret: 'x' }, full: { webhook_signing_secret: 'x'.repeat(100) } },
  mailgun: {
    minimal: { api_key: 'k', domain: 'd', region: 'us' },
    full: {
      api_key: 'k',
      domain: 'mg.b.de',
      region: 'eu',
      from: mailbox,
      webhook_signing_key: 'hunter22',
      max_per_second: 100,
    },
  },
  ping_email: {
    minimal: { url: 'http://h' },
    full: { url: `https://b.de/${'x'.repeat(87)}`, max_per_second: 2.5 },
  },
  sendgrid: {
    minimal: { api_key: '' },
    full: {
      api_key: 'SG.x',
      from: mailbox,
      reply_to: { email: 'c@d.de' },
      region: 'eu',
      webhook_public_key: 'MFkw',
      max_per_second: 10_000,
    },
  },
  ses: {
    minimal: { key_id: 'k', secret_key: 's', region: 'r' },
    full: {
      key_id: 'AKIA',
      secret_key: 'hunter22',
      region: 'eu-west-1',
      from: mailbox,
      configuration_set: 'default',
      topic_arn: 'arn:aws:sns:eu-west-1:123456789012:mail',
      max_per_second: 14,
    },
  },
  slack: { minimal: slackApp('A', '1.2'), full: slackApp('A0123456789', '1234567890.9876543210') },
  slackbot: { minimal: { enabled: false }, full: { enabled: true } },
  stripe: {
    minimal: { webhook_signing_secret: 'x' },
    full: { webhook_signing_secret: 'x'.repeat(100), id: 'eu' },
  },
  teams: { minimal: {}, full: { webhook: { url: 'https://x.webhook.office.com/webhookb2/1' } } },
  twilio: {
    minimal: { account_sid: 'a', api_key: 'k', api_secret: 's', from: '+1' },
    full: {
      account_sid: 'a'.repeat(100),
      api_key: 'k'.repeat(100),
      api_secret: 's'.repeat(100),
      from: '+12345678901234',
      auth_token: 'hunter22',
      max_per_second: 0.1,
    },
  },
  web_push: {
    minimal: { public_key: 'p'.repeat(8), private_key: 's'.repeat(8) },
    full: { public_key: 'p'.repeat(128), private_key: 's'.repeat(128) },
  },
  smtp: {
    minimal: { host: 'h', port: 25, username: '', password: '', from: { email: 'a@b.de' } },
    full: {
      host: 'smtp.example.com',
      port: 65535,
      username: 'u',
      password: 'hunter22',
      from: { email: 'a@b.de', name: 'A' },
      reply_to: { email: 'c@d.de', name: 'C' },
      security: 'starttls',
      max_per_second: 1,
    },
  },
  inbox: {
    minimal: {},
    full: {
      images: { emptyInboxUrl: 'https://x.example/empty.png' },
      locale: 'de-CH',
      theme: {
        notification: {
          default: {
            margin: '0',
            fontFamily: 'inherit',
            fontSize: '14px',
            textColor: '#000',
            borderRadius: '4px',
            backgroundColor: '#fff',
            hover: { backgroundColor: '#eee' },
          },
          hover: { backgroundColor: '#eee' },
          state: { color: '#f00' },
          unseen: {
            textColor: '#000',
            backgroundColor: '#fff',
            state: { color: '#f00' },
            hover: { backgroundColor: '#eee' },
          },
          unread: { textColor: '#000', backgroundColor: '#fff', hover: { backgroundColor: '#eee' } },
        },
        banner: { backgroundColor: '#fff', backgroundOpacity: 0.5, fontSize: '14px', textColor: '#000' },
        dialog: { accentColor: '#f00', backgroundColor: '#fff', textColor: '#000' },
        footer: { backgroundColor: '#fff', borderRadius: '0', fontSize: '14px', textColor: '#000' },
        header: {
          backgroundColor: '#fff',
          borderRadius: '0',
          fontSize: '14px',
          textColor: '#000',
          fontFamily: 'inherit',
        },
        icon: { borderColor: '#000', width: '24px' },
        unseenBadge: { backgroundColor: '#f00' },
      },
    },
  },
};

function serviceAccount(privateKey: string): object {
  return {
    type: 'service_account',
    project_id: 'p',
    private_key_id: 'i',
    private_key: privateKey,
    client_email: 'e',
    client_id: 'c',
    auth_uri: 'a',
    token_uri: 't',
    auth_provider_x509_cert_url: 'x',
    client_x509_cert_url: 'y',
    universe_domain: 'u',
  };
}

function slackApp(appId: string, clientId: string): object {
  return {
    app_id: appId,
    client_id: clientId,
    client_secret: 'c'.repeat(32),
    signing_secret: 's'.repeat(32),
  };
}

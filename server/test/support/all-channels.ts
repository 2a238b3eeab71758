import { sql } from '../../src/db/client.ts';
import { type ApiResponse, type Caller, type TestProject, type TestService, until } from './service.ts';
import { SERVERS_SLACK_APP, SLACK_APP, type Vendors } from './vendors.ts';
import type { BrowserSubscription } from './web-push-stand-in.ts';

/** Device tokens that the stand-ins of the vendors accept, made from a short name. */
export const devices = {
  apns: (name: string) => Buffer.from(name.padEnd(32, '.')).toString('hex'),
  fcm: (name: string) => `${name}:`.padEnd(80, 'APA91b'),
  expo: (name: string) => `ExponentPushToken[${name}]`,
};

/** Saves a token of a user, and returns its id. */
export async function saveToken(
  project: TestProject,
  user: string,
  collection: string,
  token: object,
): Promise<string> {
  const path = `/channels/${collection}/tokens`;
  const saved = await project.as(user)('PUT', path, token);
  if (saved.status !== 200) throw new Error(`${collection}: ${JSON.stringify(saved.body)}`);
  const listed = await project.as(user)('GET', path);
  return listed.body.data[0].id;
}

/** Installs an app for Slack as a user. Returns the id of the installation and the token of the bot. */
export async function installSlack(
  project: TestProject,
  { slack }: Vendors,
  user: string,
  { bot = false, team = 'T0TEAM' }: { bot?: boolean; team?: string } = {},
): Promise<{ id: string; accessToken: string }> {
  const appId = bot ? SERVERS_SLACK_APP.SLACKBOT_APP_ID : SLACK_APP.app_id;
  const path = `/integrations/${bot ? 'service_slackbot' : 'slack'}/installations/finish`;
  const code = slack.code({ app_id: appId, team: { id: team, name: 'Team' } });
  const { status, body } = await project.as(user)('POST', path, { app_id: appId, code });
  if (status !== 200) throw new Error(JSON.stringify(body));
  return { id: body.id, accessToken: body.access_token };
}

/** Saves one token of every kind. Returns the browser and the channel where messages to the user arrive. */
export async function reachEverywhere(
  project: TestProject,
  vendors: Vendors,
  user: string,
): Promise<{ browser: BrowserSubscription; channel: string }> {
  await project.call('PUT', '/users', {
    external_id: user,
    email: `${user}@example.com`,
    phone_numbers: ['+1 500-555-0001'],
  });
  for (const platform of ['apns', 'fcm', 'expo'] as const)
    await saveToken(project, user, `mobile_push/${platform}`, { device_token: devices[platform](user) });
  const { public_key: publicKey } = vendors.configs.web_push as { public_key: string };
  const browser = await vendors.browsers.subscribe(publicKey);
  const { endpoint, keys } = browser;
  await saveToken(project, user, 'web_push', { endpoint, keys });
  const channel = `C0${user.toUpperCase()}`;
  for (const bot of [false, true]) {
    const { id } = await installSlack(project, vendors, user, { bot });
    await saveToken(project, user, bot ? 'slack/service_slackbot' : 'slack', {
      oauth: { installation_id: id, channel_id: `${channel}${bot ? 'BOT' : ''}` },
    });
  }
  await saveToken(project, user, 'slack', { webhook: { url: `${vendors.slack.webhooksUrl}/${user}` } });
  await saveToken(project, user, 'teams', { webhook: { url: `${vendors.teams.address}/${user}` } });
  return { browser, channel };
}

/** A row of `deliveries`. */
export interface Delivery {
  channel: string;
  state: string;
  attempts: number;
  code: string | null;
  reason: string | null;
  provider: string | null;
  targets: object | null;
}

/** The deliveries of a broadcast, ordered by channel and user. */
export async function deliveriesOf({ context }: TestService, broadcastId: string): Promise<Delivery[]> {
  const rows = await context.db.query<Delivery & { targets: string | null }>(
    sql(
      '',
      `select channel, state, attempts, code, reason, provider, targets::text as targets
      from deliveries
      where broadcast_id = $1
      order by channel, user_id`,
    ),
    [broadcastId],
  );
  return rows.map((row) => ({ ...row, targets: row.targets && JSON.parse(row.targets) }));
}

/**
 * Makes all deferred deliveries due now. Their remaining targets have due times of their own: in the payload
 * of the job and, after an attempt, in the delivery.
 */
export async function bringForward({ context }: TestService): Promise<void> {
  await context.db.query(
    sql(
      '',
      // Locks jobs before deliveries, and both in the order of their keys, as the service does.
      `with deferred as materialized (
        select id from jobs where kind = 'deliver' and due_at is not null order by id for update
      ),
      begun as materialized (
        select user_id, notification_id, channel
        from deliveries
        where progress is not null and (select count(*) from deferred) >= 0
        order by user_id, notification_id, channel
        for update
      ),
      brought as (
        update deliveries d
        set progress = ${withoutTimes('progress')}
        from begun
        where d.user_id = begun.user_id and d.notification_id = begun.notification_id
          and d.channel = begun.channel and progress is not null
      )
      update jobs
      set due_at = now() - interval '1 second', payload = ${withoutTimes('payload')}
      where id = any (array(select id from deferred))`,
    ),
  );
}

const withoutTimes = (json: string) =>
  `regexp_replace(${json}::text, '(?<!_ms)":[0-9]{13}', '":0', 'g')::json`;

/** Waits until a broadcast is processed and all its deliveries have ended, and runs every retry at once. */
export async function processedAtOnce(
  service: TestService,
  call: Caller,
  id: string,
): Promise<ApiResponse['body']> {
  const { body } = await until(
    () => bringForward(service).then(() => call('GET', `/broadcasts/${id}`)),
    (response) => response.body.status.status === 'processed' && response.body.status.summary.pending === 0,
    { everyMs: 50 },
  );
  return body;
}

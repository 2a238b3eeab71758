/** Run with `--import`: adds a line for each made-up provider to the list of providers. */
import { registerHooks } from 'node:module';

const provider = new URL('./provider.ts', import.meta.url).href;
const LINES = `
export { email as made_up_email } from '${provider}';
export { sms as made_up_sms } from '${provider}';
export { mobilePush as made_up_mobile_push } from '${provider}';
export { webPush as made_up_web_push } from '${provider}';
export { slack as made_up_slack } from '${provider}';
export { teams as made_up_teams } from '${provider}';
`;

registerHooks({
  load(url, context, nextLoad) {
    const loaded = nextLoad(url, context);
    if (!url.endsWith('/server/src/providers/list.ts')) return loaded;
    return { ...loaded, source: `${loaded.source}${LINES}` };
  },
});

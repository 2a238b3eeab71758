/** The only list of providers: an integration whose name is not here does not exist. */
import { inbox } from './inbox.ts';
import type { Provider } from './provider.ts';
import { smtp } from './smtp.ts';

/** Every kind of integration that a project can set up, by the name in its routes. */
export const integrations = { inbox, smtp };

/** Those that deliver e-mail. Their configs differ, so a sender is made from the config that was saved under the same name. */
export const emailProviders: ReadonlyMap<string, Provider<'email'>> = new Map([[smtp.name, smtp]]);

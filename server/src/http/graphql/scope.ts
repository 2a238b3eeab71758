import type { Caller } from '../auth.ts';
import type { HttpContext } from '../context.ts';
import type { App } from '../route.ts';
import type { InboxEventSource } from './inbox-events.ts';
import { createLoaders, type Loaders } from './loaders.ts';

/** What the resolvers of one operation share. */
export interface Scope {
  readonly context: HttpContext;
  readonly caller: Caller;
  /** The names of the credentials in errors. */
  readonly credentialNames: Record<Caller['kind'], string>;
  /** The `x-<brand>-client-id` header, by which a client recognises its own changes in streams. */
  readonly clientId: string | undefined;
  readonly loaders: Loaders;
  /** Called after each root field, except those that were refused for their arguments or the caller. */
  readonly onRun: () => void;
  /** The changes of the user's inbox from now on; undefined if the operation is no subscription. */
  readonly listen: (() => AsyncIterable<InboxEventSource>) | undefined;
}

/** The scope of an operation of this caller. */
export function createScope(
  { context, api }: Pick<App, 'context' | 'api'>,
  caller: Caller,
  { clientId, onRun = () => undefined, listen }: Partial<Pick<Scope, 'clientId' | 'onRun' | 'listen'>>,
): Scope {
  const { project, user } = api.credentials;
  return {
    context,
    caller,
    credentialNames: { project: project.name, user: user.name },
    clientId,
    loaders: createLoaders({ db: context.db, brand: context.config.BRAND, projectId: caller.project.id }),
    onRun,
    listen,
  };
}

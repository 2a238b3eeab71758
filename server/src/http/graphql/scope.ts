import type { Caller } from '../auth.ts';
import type { HttpContext } from '../context.ts';
import type { Loaders } from './loaders.ts';

/** What the resolvers of one operation share. */
export interface Scope {
  readonly context: HttpContext;
  readonly caller: Caller;
  /** The names of the credentials in errors. */
  readonly credentialNames: Record<Caller['kind'], string>;
  /** The `x-<brand>-client-id` header, by which a client recognises its own changes in streams. */
  readonly clientId: string | undefined;
  readonly loaders: Loaders;
}

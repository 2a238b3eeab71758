import { memberOf } from './members.ts';

/** A member of a request that names a host to connect to: `webhook.url`, `host`. */
export interface NamedHost {
  field: string;
  /** Returns the host in the member's text; undefined if there is none. */
  hostOf(text: string): string | undefined;
}

/** A member that contains a URL. */
export function urlMember(field: string): NamedHost {
  return { field, hostOf: (text) => URL.parse(text)?.hostname.replace(/^\[|\]$/g, '') };
}

/** A member that contains a host. */
export function hostMember(field: string): NamedHost {
  return { field, hostOf: (text) => text };
}

/** Returns the host that a request of any shape names in this member; undefined if it names none. */
export function hostNamedIn(sent: unknown, { field, hostOf }: NamedHost): string | undefined {
  const text = field.split('.').reduce<unknown>(memberOf, sent);
  return typeof text === 'string' ? hostOf(text) || undefined : undefined;
}

import { memberOf } from './members.ts';

/** A member of a request that names a host to connect to: `webhook.url`, `host`. */
export interface NamedHost {
  field: string;
  /** The host that the member's text means; undefined if it means none. */
  hostOf(text: string): string | undefined;
}

/** A member that is the address of a host's resource. */
export function urlMember(field: string): NamedHost {
  return { field, hostOf: (text) => URL.parse(text)?.hostname.replace(/^\[|\]$/g, '') };
}

/** A member that is the host itself. */
export function hostMember(field: string): NamedHost {
  return { field, hostOf: (text) => text };
}

/** The host that a request of whatever shape names there. */
export function hostNamedIn(sent: unknown, { field, hostOf }: NamedHost): string | undefined {
  const text = field.split('.').reduce<unknown>(memberOf, sent);
  return typeof text === 'string' ? hostOf(text) || undefined : undefined;
}

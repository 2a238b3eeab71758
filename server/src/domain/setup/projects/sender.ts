import { DEFAULT_PROJECT } from './create.ts';

/** The sender of messages as users see it. */
export interface Sender {
  name: string | null;
  logoUrl: string | null;
}

/** Returns how a project is shown to users. The name that the first start chose says nothing to them. */
export function senderOf({
  name,
  displayName,
  logoUrl,
}: {
  name: string;
  displayName: string | null;
  logoUrl: string | null;
}): Sender {
  return { name: displayName ?? (name === DEFAULT_PROJECT ? null : name), logoUrl };
}

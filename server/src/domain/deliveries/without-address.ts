const SPECIAL = /[\\^$.*+?()[\]{}|/-]/g;

/**
 * What a provider said, without the recipient's address in whatever case: it is kept in events, which outlive the user, and the
 * user's id stands beside it.
 */
export function withoutAddress(text: string, email: string | null | undefined): string {
  if (!email) return text;
  return text.replace(new RegExp(email.trim().replace(SPECIAL, '\\$&'), 'gi'), '[address]');
}

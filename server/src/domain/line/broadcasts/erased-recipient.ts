/** The external id that replaces the names of an erased user among the recipients of a broadcast. */
export const erasedName = (userId: string): string => `deleted:${userId}`;

const ERASED = /^deleted:[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

export function isErasedName(externalId: string | undefined): boolean {
  return externalId !== undefined && ERASED.test(externalId);
}

/** The error of such a recipient. */
export const USER_WAS_ERASED = 'this user is deleted';

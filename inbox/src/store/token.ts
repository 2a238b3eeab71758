/** Returns whose User JWT this is; undefined if it cannot be read. */
export function userOf(token: string): unknown {
  try {
    const claims = token.split('.')[1] as string;
    const { user_external_id, user_email } = JSON.parse(
      atob(claims.replaceAll('-', '+').replaceAll('_', '/')),
    );
    return user_external_id ?? user_email;
  } catch {
    return undefined;
  }
}

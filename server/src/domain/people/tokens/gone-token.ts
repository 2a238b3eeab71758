/** What is needed to discard a token. */
export interface TokenRef {
  projectId: string;
  userId: string;
  tokenId: string;
  /** As in `tokens.channel`: `mobile_push/apns`. */
  channel: string;
  installationId?: string;
}

/** A token that the provider reports as invalid. */
export interface GoneToken extends TokenRef {
  scope: 'token' | 'installation';
  goneAt?: Date;
  reason: string;
  code?: string | undefined;
}

// biome-ignore-all lint/performance/noBarrelFile: the entry of the package, without side effects
// biome-ignore-all lint/performance/noReExportAll: only types, which cost nothing
export { BelfryError } from './errors.ts';
export type { InboxThemeEvent, NotificationEvent, ResyncEvent } from './event-of.ts';
export type { EventStream } from './event-stream.ts';
export { ProjectClient } from './generated/project-client.ts';
export type * from './generated/types.ts';
export { UserClient } from './generated/user-client.ts';
export type { ClientOptions, RequestOptions, StreamOptions } from './options.ts';
export type { Page, PageRequest } from './page-request.ts';
export { type ApiRequest, createTransport, type Transport } from './transport.ts';
export { createUserToken, type UserTokenOptions } from './user-token.ts';
export {
  type VerifyWebhookOptions,
  verifyWebhook,
  WebhookError,
  type WebhookErrorCode,
  type WebhookMessage,
} from './verify-webhook.ts';

// biome-ignore-all lint/performance/noBarrelFile: the face of the package; bundlers drop what is not used (sideEffects: false)
// biome-ignore-all lint/performance/noReExportAll: types alone, which cost nothing
export { BelfryError, type ErrorDetail } from './errors.ts';
export type { NotificationEvent, ResyncEvent } from './event-of.ts';
export type { EventStream } from './event-stream.ts';
export { ProjectClient } from './generated/project-client.ts';
export type * from './generated/types.ts';
export { UserClient } from './generated/user-client.ts';
export type { ClientOptions, RequestOptions, StreamOptions } from './options.ts';
export type { Page, PageRequest } from './page-request.ts';
export type { ApiRequest } from './transport.ts';
export { createUserToken, type UserTokenOptions } from './user-token.ts';

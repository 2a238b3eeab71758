import type { App } from '../route.ts';
import { broadcastRoutes } from './broadcasts.ts';
import { configRoutes } from './config.ts';
import { importRoutes } from './imports.ts';
import { metricsRoutes } from './metrics.ts';
import { notificationRoutes } from './notifications.ts';
import { preferenceRoutes } from './preferences.ts';
import { subscriptionRoutes } from './subscriptions.ts';
import { tokenRoutes } from './tokens.ts';
import { userRoutes } from './users.ts';

/** Every resource of v1, in the order of the published description. */
export function v1Routes(app: App): void {
  notificationRoutes(app);
  broadcastRoutes(app);
  preferenceRoutes(app);
  subscriptionRoutes(app);
  tokenRoutes(app);
  userRoutes(app);
  importRoutes(app);
  metricsRoutes(app);
  configRoutes(app);
}

import type { App } from '../route.ts';
import { broadcastRoutes } from './broadcasts.ts';
import { categoryRoutes } from './categories.ts';
import { deliveryRoutes } from './deliveries.ts';
import { deliveryWindowRoutes } from './delivery-windows.ts';
import { eventRoutes } from './events.ts';
import { installationRoutes } from './installations.ts';
import { integrationRoutes } from './integrations.ts';
import { notificationRoutes } from './notifications.ts';
import { preferenceRoutes } from './preferences.ts';
import { projectRoutes } from './project.ts';
import { streamRoute } from './stream.ts';
import { subscriptionRoutes } from './subscriptions.ts';
import { suppressionRoutes } from './suppressions.ts';
import { templateRoutes } from './templates.ts';
import { tokenRoutes } from './tokens.ts';
import { topicRoutes } from './topics.ts';
import { trackingRoutes } from './tracking.ts';
import { userExportRoutes } from './user-exports.ts';
import { userImportRoutes } from './user-imports.ts';
import { userRoutes } from './users.ts';
import { webhookRoutes } from './webhooks.ts';
import { workflowRoutes } from './workflows.ts';

/** Every v2 resource, in the order of the published description. */
export function v2Routes(app: App): void {
  broadcastRoutes(app);
  deliveryRoutes(app);
  notificationRoutes(app);
  tokenRoutes(app);
  preferenceRoutes(app);
  subscriptionRoutes(app);
  topicRoutes(app);
  categoryRoutes(app);
  deliveryWindowRoutes(app);
  trackingRoutes(app);
  integrationRoutes(app);
  installationRoutes(app);
  projectRoutes(app);
  userRoutes(app);
  userImportRoutes(app);
  userExportRoutes(app);
  suppressionRoutes(app);
  eventRoutes(app);
  webhookRoutes(app);
  workflowRoutes(app);
  templateRoutes(app);
  streamRoute(app, app.context.streams);
}

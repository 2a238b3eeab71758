import { ProjectDeliveryWindows, UserDeliveryWindows } from '../../contract/delivery-windows.ts';
import { getWindows } from '../../domain/setup/delivery-windows/get.ts';
import { problemsOfWindows } from '../../domain/setup/delivery-windows/problems.ts';
import { saveWindows } from '../../domain/setup/delivery-windows/save.ts';
import type { Project } from '../../domain/setup/projects/cache.ts';
import { rawJson } from '../reply.ts';
import { type App, projectRoute, userRoute } from '../route.ts';

/** Registers `/channels/delivery_windows` and `/channels/user_delivery_windows`. */
export function deliveryWindowRoutes(app: App): void {
  routes(app, projectRoute, {
    url: '/channels/delivery_windows',
    name: 'DeliveryWindows',
    windows: ProjectDeliveryWindows,
    what: 'the delivery windows of the project',
    whatItReturns: 'Returns when the project sends messages on each channel.',
    description:
      'Replaces the saved windows. A message outside of them is deferred until the next window opens in ' +
      'the time zone of the user. A category can have windows of its own; a `critical` category is sent at ' +
      'any time, and the inbox has no windows.',
  });
  routes(app, userRoute, {
    url: '/channels/user_delivery_windows',
    name: 'UserDeliveryWindows',
    windows: UserDeliveryWindows,
    what: 'the delivery windows of the user',
    whatItReturns: 'Returns the windows that the user saved. Other channels use those of the project.',
    description:
      'Replaces the saved windows. On the channels in the body they apply instead of the windows of the ' +
      'project and its categories. A `critical` category is sent at any time.',
  });
}

interface Owned {
  url: string;
  name: string;
  windows: typeof ProjectDeliveryWindows;
  what: string;
  whatItReturns: string;
  description: string;
}

function routes(
  app: App,
  route: typeof projectRoute | typeof userRoute,
  { url, name, windows, what, whatItReturns, description }: Owned,
): void {
  const tags: [string] = ['Delivery windows'];
  const ownerOf = ({ project, user }: { project: Project; user?: { id: string } }) => ({
    projectId: project.id,
    userId: user?.id,
  });

  route(app, {
    method: 'GET',
    url,
    operationId: `get${name}`,
    summary: `Get ${what}`,
    description: whatItReturns,
    tags,
    reply: { 200: windows },
    handler: async (call) => rawJson(await getWindows(call.context.db, ownerOf(call))),
  });

  route(app, {
    method: 'PUT',
    url,
    operationId: `save${name}`,
    summary: `Save ${what}`,
    description,
    tags,
    body: windows,
    alsoWrong: ({ body }) => problemsOfWindows(body),
    reply: { 200: windows },
    async handler(call) {
      await saveWindows(call.context, ownerOf(call), call.body);
      return call.body;
    },
  });
}

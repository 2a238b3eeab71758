import { ProjectDeliveryWindows, UserDeliveryWindows } from '../../contract/delivery-windows.ts';
import { getWindows } from '../../domain/setup/delivery-windows/get.ts';
import { problemsOfWindows } from '../../domain/setup/delivery-windows/problems.ts';
import { saveWindows } from '../../domain/setup/delivery-windows/save.ts';
import type { Project } from '../../domain/setup/projects/cache.ts';
import { rawJson } from '../reply.ts';
import { type App, projectRoute, userRoute } from '../route.ts';

/** GET and PUT of /channels/delivery_windows, and of /channels/user_delivery_windows. */
export function deliveryWindowRoutes(app: App): void {
  routes(app, projectRoute, {
    url: '/channels/delivery_windows',
    name: 'DeliveryWindows',
    windows: ProjectDeliveryWindows,
    what: "when the project's messages go out",
    description:
      'Replaces what was saved before. What comes outside of a window is held until the next one opens, by the clock of each user’s time zone; nothing is dropped for it. A category may have windows of its own, or be `critical`: then it goes out at any time. The inbox always shows everything at once.',
  });
  routes(app, userRoute, {
    url: '/channels/user_delivery_windows',
    name: 'UserDeliveryWindows',
    windows: UserDeliveryWindows,
    what: 'when messages reach the user',
    description:
      'Replaces what the user said before. On the channels that are named it counts instead of what the project and its categories have; `critical` categories come at any time.',
  });
}

interface Owned {
  url: string;
  name: string;
  windows: typeof ProjectDeliveryWindows;
  what: string;
  description: string;
}

function routes(
  app: App,
  route: typeof projectRoute | typeof userRoute,
  { url, name, windows, what, description }: Owned,
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

import { ProjectDeliveryWindows, UserDeliveryWindows } from '../../contract/delivery-windows.ts';
import { getProjectWindows, getUserWindows } from '../../domain/delivery-windows/get.ts';
import { problemsOfWindows } from '../../domain/delivery-windows/problems.ts';
import { saveProjectWindows, saveUserWindows } from '../../domain/delivery-windows/save.ts';
import { rawJson } from '../reply.ts';
import { type App, projectRoute, userRoute } from '../route.ts';

const tags: [string] = ['Delivery windows'];
const ofProject = '/channels/delivery_windows';
const ofUser = '/channels/user_delivery_windows';

/** GET and PUT of /channels/delivery_windows, and of /channels/user_delivery_windows. */
export function deliveryWindowRoutes(app: App): void {
  projectRoute(app, {
    method: 'GET',
    url: ofProject,
    operationId: 'getDeliveryWindows',
    summary: "Get when the project's messages go out",
    tags,
    reply: { 200: ProjectDeliveryWindows },
    handler: async ({ project, context }) => rawJson(await getProjectWindows(context.db, project.id)),
  });

  projectRoute(app, {
    method: 'PUT',
    url: ofProject,
    operationId: 'saveDeliveryWindows',
    summary: "Save when the project's messages go out",
    description:
      'Replaces what was saved before. What comes outside of a window is held until the next one opens, by the clock of each user’s time zone; nothing is dropped for it. A category may have windows of its own, or be `critical`: then it goes out at any time. The inbox always shows everything at once.',
    tags,
    body: ProjectDeliveryWindows,
    alsoWrong: ({ body }) => problemsOfWindows(body),
    reply: { 200: ProjectDeliveryWindows },
    async handler({ project, body, context }) {
      await saveProjectWindows(context, project.id, body);
      return body;
    },
  });

  userRoute(app, {
    method: 'GET',
    url: ofUser,
    operationId: 'getUserDeliveryWindows',
    summary: 'Get when messages reach the user',
    tags,
    reply: { 200: UserDeliveryWindows },
    handler: async ({ user, context }) => rawJson(await getUserWindows(context.db, user.id)),
  });

  userRoute(app, {
    method: 'PUT',
    url: ofUser,
    operationId: 'saveUserDeliveryWindows',
    summary: 'Save when messages reach the user',
    description:
      'Replaces what the user said before. On the channels that are named it counts instead of what the project and its categories have; `critical` categories come at any time.',
    tags,
    body: UserDeliveryWindows,
    alsoWrong: ({ body }) => problemsOfWindows(body),
    reply: { 200: UserDeliveryWindows },
    async handler({ user, project, body, context }) {
      await saveUserWindows(context, { projectId: project.id, userId: user.id }, body);
      return body;
    },
  });
}

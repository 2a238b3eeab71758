import { type Static, type TObject, type TSchema, Type } from 'typebox';
import { UserInPath } from '../contract/user.ts';
import { userInPath } from './in-path.ts';
import {
  type App,
  type HandlerResult,
  projectRoute,
  type Replies,
  type Route,
  type UserCall,
  userRoute,
} from './route.ts';

/** The route by which a backend acts for one of its users. Its path begins with `/users/{user_id}`. */
interface ForProject {
  summary: string;
  /** The rest of its path, if it differs from that of the user's route. */
  url?: string;
}

/** Registers a route for a User JWT, and the same for a Project JWT that acts for one of its users. */
export function routeOfUser<
  Params extends TObject,
  Query extends TObject,
  Body extends TSchema,
  const Reply extends Replies,
>(
  app: App,
  { forProject, ...route }: Route<Params, Query, Body, Reply, UserCall> & { forProject: ForProject },
): void {
  userRoute(app, route);
  const params = Type.Object({ ...UserInPath.properties, ...route.params?.properties });
  projectRoute<typeof params, Query, Body, Reply>(app, {
    ...route,
    url: `/users/:user_id${forProject.url ?? route.url}`,
    operationId: `${route.operationId.replace('User', '')}OfUser`,
    summary: forProject.summary,
    params,
    // A promise resolves with what the handler's promise resolves with; the types cannot express it.
    handler: (call) =>
      userInPath(call).then((owner) =>
        route.handler({ ...call, params: call.params as Static<Params>, user: { id: owner.userId }, owner }),
      ) as HandlerResult<Reply>,
  });
}

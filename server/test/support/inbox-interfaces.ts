import type { NotificationAction } from '../../src/domain/line/notifications/change.ts';
import type { BulkAction } from '../../src/domain/line/notifications/change-all.ts';
import type { ApiResponse, Caller, TestProject } from './service.ts';

/** One of the interfaces by which a notification of a user can be read and changed. */
export interface InboxInterface {
  /** Resolves with whether the notification was found; undefined if there is no such operation. */
  change(action: NotificationAction, id: string): Promise<boolean> | undefined;
  /** A change other than `delete` reads the notification afterwards, and may not find it any more. */
  readsAfterwards?: true;
  /** Undefined if there is no such operation. */
  changeAll(action: BulkAction, filter: InboxFilter): Promise<void> | undefined;
  /** Like `change`. */
  snooze(id: string, until: string | null): Promise<boolean> | undefined;
  /** Resolves with undefined if the notification is unknown. */
  get(id: string): Promise<NotificationTimes | undefined>;
}

export interface InboxFilter {
  category?: string | null | undefined;
  topic?: string | undefined;
}

export interface NotificationTimes {
  seen_at: string | null;
  read_at: string | null;
  archived_at: string | null;
}

/** Every interface, for a user of a project. */
export const INBOX_INTERFACES: Record<string, (project: TestProject, externalId: string) => InboxInterface> =
  {
    v2: (project, externalId) => rest(project.as(externalId)),
    'v2 by a backend': (project, externalId) => rest(project.call, `/users/external_id:${externalId}`),
    v1: (project, externalId) => legacy(project.v1As(externalId), 'POST', '/unarchive'),
    'v1 with DELETE': (project, externalId) => legacy(project.v1As(externalId), 'DELETE', '/archive'),
    GraphQL: (project, externalId) => graphql(project.v1As(externalId)),
    'GraphQL by a backend': (project, externalId) => {
      const named = { 'x-service-user-external-id': externalId };
      return graphql((method, path, body) => project.v1(method, path, body, named));
    },
  };

function rest(call: Caller, prefix = ''): InboxInterface {
  const url = `${prefix}/notifications`;
  return {
    change: async (action, id) =>
      isFound(
        await (action === 'delete' ? call('DELETE', `${url}/${id}`) : call('POST', `${url}/${id}/${action}`)),
      ),
    changeAll: async (action, filter) => {
      expectDone(await call('POST', `${url}/${action}${queryOf(filter)}`));
    },
    snooze: async (id, until) => isFound(await call('POST', `${url}/${id}/snooze`, { until })),
    get: async (id) => timesOf(await call('GET', `${url}/${id}`)),
  };
}

function legacy(call: Caller, method: 'POST' | 'DELETE', unarchive: string): InboxInterface {
  const { change, changeAll } = rest(call);
  return {
    change(action, id) {
      if (action === 'seen') return undefined;
      if (action !== 'unarchive') return change(action, id);
      return call(method, `/notifications/${id}${unarchive}`).then(isFound);
    },
    changeAll: (action, filter) => (action === 'archive' ? undefined : changeAll(action, filter)),
    snooze: () => undefined,
    async get(id) {
      const response = await call('GET', `/notifications/${id}`);
      return timesOf({ ...response, body: response.body.notification });
    },
  };
}

function graphql(call: Caller): InboxInterface {
  const send = async (query: string, variables: object) => {
    const { body } = await call('POST', '/graphql', { query, variables });
    const codes: string[] = body.errors?.map((error: { extensions: object }) => error.extensions) ?? [];
    return { data: body.data, codes };
  };
  const change = async (query: string, variables: object) => {
    const { codes } = await send(query, variables);
    if (codes.length > 0 && JSON.stringify(codes) !== '[{"code":"not_found"}]')
      throw new Error(`the response to a change has the errors ${JSON.stringify(codes)}`);
    return codes.length === 0;
  };
  return {
    readsAfterwards: true,
    change(action, id) {
      const selection = action === 'delete' ? '' : '{ id }';
      return change(`mutation ($id: ID!) { ${action}Notification(id: $id) ${selection} }`, { id });
    },
    snooze: (id, until) =>
      change('mutation ($id: ID!, $until: DateTime) { snoozeNotification(id: $id, until: $until) { id } }', {
        id,
        until,
      }),
    async changeAll(action, { category, topic }) {
      const query = `mutation ($categories: [String!], $topics: [String!]) {
        ${action}AllNotifications(categories: $categories, topics: $topics)
      }`;
      const { codes } = await send(query, {
        ...(category === undefined ? {} : { categories: [category ?? 'uncategorized'] }),
        ...(topic === undefined ? {} : { topics: [topic] }),
      });
      if (codes.length > 0) throw new Error(`a change of all has the errors ${JSON.stringify(codes)}`);
    },
    async get(id) {
      const query = `query ($id: ID!) {
        notification(id: $id) { seen_at: seenAt read_at: readAt archived_at: archivedAt }
      }`;
      const { data } = await send(query, { id });
      return data.notification ?? undefined;
    },
  };
}

function queryOf({ category, topic }: InboxFilter): string {
  const query = new URLSearchParams();
  if (category !== undefined) query.set('category', category ?? 'uncategorized');
  if (topic !== undefined) query.set('topic', topic);
  return `?${query}`;
}

function isFound({ status }: ApiResponse): boolean {
  if (status !== 204 && status !== 404) throw new Error(`the response to a change is ${status}`);
  return status === 204;
}

function expectDone({ status }: ApiResponse): void {
  if (status !== 204) throw new Error(`the response to a change of all is ${status}`);
}

function timesOf({ status, body }: ApiResponse): NotificationTimes | undefined {
  if (status === 404) return undefined;
  if (status !== 200) throw new Error(`the response to a request for a notification is ${status}`);
  return body;
}

import { type Change, changed } from './notification.ts';
import type { Notification } from './types.ts';

/** A change of notifications: as it is known, or a new one. */
export interface Entry {
  /** Returns the change of a notification, or undefined if it is another one. */
  change?: (notification: Notification) => Change | undefined;
  /** Notifications with the change, which may have entered the list of a response. */
  moved?: readonly Notification[] | undefined;
  /** Notifications as the server has sent them, perhaps after it made a response. */
  arrived?: readonly Notification[];
}

/**
 * Keeps changes that a response of the server may lack: those whose requests are under way, and those that
 * became known after the request of the response.
 */
export class Journal {
  readonly #pending = new Set<Entry>();
  readonly #readings = new Set<Set<Entry>>();

  /** Records a change that the server has made. */
  record(entry: Entry): void {
    for (const reading of this.#readings) reading.add(entry);
    // A response that comes before that of a pending change would otherwise undo what happened meanwhile.
    const { change, moved = [], arrived = [] } = entry;
    const newer = new Map([...moved, ...arrived].map((one) => [one.id, one]));
    for (const pending of this.#pending)
      pending.moved = pending.moved?.map((one) => newer.get(one.id) ?? changed(one, change?.(one)));
  }

  /** Records a change whose request starts. The returned function ends it, and removes it if it failed. */
  begin(entry: Entry): (outcome: 'succeeded' | 'failed') => void {
    this.#pending.add(entry);
    this.record(entry);
    return (outcome) => {
      this.#pending.delete(entry);
      if (outcome === 'failed') for (const reading of this.#readings) reading.delete(entry);
    };
  }

  /**
   * Fetches notifications and applies the changes that they lack. Resolves with them and with those that
   * arrived or moved meanwhile.
   */
  async read<Result>(
    fetchThem: () => Promise<Result>,
    notificationsOf: (result: Result) => readonly Notification[],
  ): Promise<{ result: Result; notifications: Notification[]; arrived: Notification[] }> {
    const reading = new Set(this.#pending);
    this.#readings.add(reading);
    try {
      const result = await fetchThem();
      const entries = [...reading];
      const apply = (notification: Notification) =>
        entries.reduce((current, { change }) => changed(current, change?.(current)), notification);
      const notifications = notificationsOf(result).map(apply);
      // The response has newer ones than those that were changed here.
      const fetched = new Set(notifications.map(({ id }) => id));
      const newer = entries.flatMap(({ moved = [], arrived = [] }) => [
        ...moved.filter(({ id }) => !fetched.has(id)),
        ...arrived,
      ]);
      return { result, notifications, arrived: newer.map(apply) };
    } finally {
      this.#readings.delete(reading);
    }
  }
}

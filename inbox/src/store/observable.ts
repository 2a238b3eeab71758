/** A value that listeners follow. Each change makes a new object, so snapshots can be compared with `===`. */
export class Observable<State extends object> {
  #state: State;
  readonly #listeners = new Set<() => void>();
  readonly #onFirst: () => void;
  readonly #onLast: () => void;

  constructor(state: State, onFirst: () => void = () => {}, onLast: () => void = () => {}) {
    this.#state = state;
    this.#onFirst = onFirst;
    this.#onLast = onLast;
  }

  get hasListeners(): boolean {
    return this.#listeners.size > 0;
  }

  readonly getSnapshot = (): State => this.#state;

  readonly subscribe = (listener: () => void): (() => void) => {
    const own = () => listener(); // the same function may subscribe twice
    this.#listeners.add(own);
    if (this.#listeners.size === 1) this.#onFirst();
    return () => {
      if (this.#listeners.delete(own) && this.#listeners.size === 0) this.#onLast();
    };
  };

  /** Merges the changes into the state. Does nothing if they change nothing. */
  set(changes: Partial<State>): void {
    const names = Object.keys(changes) as (keyof State)[];
    if (names.every((name) => Object.is(this.#state[name], changes[name]))) return;
    this.#state = { ...this.#state, ...changes };
    for (const listener of [...this.#listeners]) listener();
  }
}

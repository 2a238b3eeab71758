import { StartError } from './db/embedded/start-error.ts';
import { type Cell, isSameCell, listCells } from './domain/setup/cells/cells.ts';
import { waitAtMost } from './lib/wait.ts';
import { type Opened, rememberCells } from './open.ts';

// A cell that could not be opened is tried again after this time: its database may be restarting.
const RETRY_MS = 5_000;
// Messages about new, changed and removed cells are lost if the command is killed right before it.
const LOOK_EVERY_MS = 30_000;
// A node starts without cells that take longer: the migration of a large one can take an hour.
const START_WITHIN_MS = 5_000;

/** What is kept of an open cell. */
interface Closable {
  close(): Promise<void>;
}

/** Keeps the cells of the directory open, besides the default one, also those that are added later. */
export class OpenCells<Kept extends Closable> {
  readonly #main: Opened;
  readonly #open: (cell: Cell) => Promise<Kept>;
  readonly #onChanged: (names: readonly string[]) => void;
  readonly #lookEveryMs: number;
  readonly #kept = new Map<string, { cell: Cell; one: Kept }>();
  /** Cells that are being opened. Others do not wait for one that takes long. */
  readonly #opening = new Map<string, Promise<void>>();
  /** Why cells could not be opened, as it was reported. */
  readonly #reported = new Map<string, string>();
  #unsubscribe = () => {};
  #running: Promise<void> = Promise.resolve();
  #timer: NodeJS.Timeout | undefined;
  #closed = false;
  /** Whether the directory could be read when it was read last. */
  #isRead = true;

  /** `onChanged` gets the names of all cells of the directory, before those that are new are opened. */
  constructor({
    main,
    open,
    onChanged = () => {},
    lookEveryMs = LOOK_EVERY_MS,
  }: {
    main: Opened;
    open: (cell: Cell) => Promise<Kept>;
    onChanged?: (names: readonly string[]) => void;
    /** How often it looks for changes without a message. */
    lookEveryMs?: number;
  }) {
    this.#main = main;
    this.#open = open;
    this.#onChanged = onChanged;
    this.#lookEveryMs = lookEveryMs;
  }

  /** Opens the cells, and from now on those that are added. Resolves without those that take long. */
  async start(): Promise<void> {
    this.#unsubscribe = this.#main.bus.subscribe(({ type }) => {
      if (type === 'cells_changed' || type === 'missed') void this.#syncSoon();
    });
    const first = this.#sync();
    this.#running = first.catch(() => this.#syncIn(RETRY_MS));
    const opened = first.then(() => Promise.all(this.#opening.values()));
    await waitAtMost(START_WITHIN_MS, opened, () => {});
  }

  /** The cells that are open now. */
  get all(): Kept[] {
    return [...this.#kept.values()].map(({ one }) => one);
  }

  /** Reads the directory once more, after the reading that is under way. */
  #next(): Promise<void> {
    const next = this.#running.then(() => this.#sync());
    this.#running = next.catch(() => {});
    return next;
  }

  /** Closes the cells. One that is being opened is closed when it is open: that can take long. */
  async close(): Promise<void> {
    this.#closed = true;
    this.#unsubscribe();
    clearTimeout(this.#timer);
    await this.#running;
    await Promise.all(this.all.map((one) => one.close()));
  }

  async #sync(): Promise<void> {
    if (this.#closed) return;
    const cells = await listCells(this.#main.db);
    this.#isRead = true;
    if (!rememberCells(this.#main, cells.length))
      this.#main.log.warn('Restart the server: its database has more cells than it has connections for');
    const names = cells.map(({ name }) => name);
    await this.#closeRemoved(cells);
    this.#onChanged(names); // before they are open, too: until then their requests get a 503
    this.#syncIn(this.#lookEveryMs);
    for (const cell of cells) {
      const { name } = cell;
      if (this.#kept.has(name) || this.#opening.has(name)) continue;
      const opened = this.#tryToOpen(cell).finally(() => this.#opening.delete(name));
      this.#opening.set(name, opened);
    }
  }

  /** Also one that was removed and added again in another place: the messages about that may be lost. */
  async #closeRemoved(cells: readonly Cell[]): Promise<void> {
    for (const [name, { cell, one }] of this.#kept) {
      if (cells.some((listed) => isSameCell(listed, cell))) continue;
      this.#kept.delete(name);
      await one.close().catch((error: unknown) => {
        this.#main.log.warn({ cell: name, err: error }, 'a part of a removed cell failed to stop');
      });
      this.#main.log.info({ cell: name }, 'cell closed');
    }
  }

  /** Opens a cell. If it fails, that is reported, and it is tried again later. */
  async #tryToOpen(cell: Cell): Promise<void> {
    const { log } = this.#main;
    try {
      const one = await this.#open(cell);
      if (this.#closed) return await one.close();
      this.#kept.set(cell.name, { cell, one });
      this.#reported.delete(cell.name);
      log.info({ cell: cell.name }, 'cell opened');
      this.#syncIn(0); // it may have been removed meanwhile, or added in another place
    } catch (error) {
      this.#syncIn(Math.min(RETRY_MS, this.#lookEveryMs));
      const reason = error instanceof Error ? error.message : String(error);
      if (this.#reported.get(cell.name) !== reason) {
        this.#reported.set(cell.name, reason);
        const facts = error instanceof StartError ? { reason } : { err: error };
        log.error({ cell: cell.name, ...facts }, 'a cell could not be opened: it is tried every few seconds');
      }
    }
  }

  async #syncSoon(): Promise<void> {
    await this.#next().catch((error: unknown) => {
      // Once for an outage.
      if (this.#isRead)
        this.#main.log.warn({ err: error }, 'the directory of cells could not be read; retried');
      this.#isRead = false;
      this.#syncIn(RETRY_MS);
    });
  }

  #syncIn(ms: number): void {
    clearTimeout(this.#timer);
    if (!this.#closed) this.#timer = setTimeout(() => void this.#syncSoon(), ms);
  }
}

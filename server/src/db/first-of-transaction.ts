import pg from 'pg';

/**
 * The first statement of a transaction, sent together with `begin`: both take one round trip, and if `begin`
 * fails, PostgreSQL skips the statement.
 */
export class FirstOfTransaction extends (pg.Query as unknown as DriverQueryClass) {
  readonly #named: string | undefined;
  #begun = false;

  constructor(query: pg.QueryConfig) {
    super({ ...query, queryMode: 'extended' });
    this.#named = this.name;
  }

  override prepare(connection: DriverConnection): void {
    connection.parse({ name: '', text: 'begin' });
    connection.bind({});
    connection.execute({});
    super.prepare(connection);
    // The driver would take `begin`, which is parsed first, for the statement of this name.
    this.name = undefined;
  }

  /** The driver would return the results of both. */
  override handleCommandComplete(message: unknown, connection: DriverConnection): void {
    if (this.#begun) super.handleCommandComplete(message, connection);
    this.#begun = true;
    this.name = this.#named;
  }

  override handleError(error: Error, connection: DriverConnection): void {
    if (!this.#begun && this.#named) delete connection.submittedNamedStatements[this.#named];
    super.handleError(error, connection);
  }
}

/** What is used here of the driver's query, and @types/pg does not describe. */
interface DriverQuery extends pg.Query {
  readonly text: string;
  name: string | undefined;
  prepare(connection: DriverConnection): void;
  handleCommandComplete(message: unknown, connection: DriverConnection): void;
  handleError(error: Error, connection: DriverConnection): void;
}
type DriverQueryClass = new (query: pg.QueryConfig & { queryMode: 'extended' }) => DriverQuery;

interface DriverConnection {
  readonly submittedNamedStatements: Record<string, string>;
  parse(message: { name: string; text: string }): void;
  bind(message: object): void;
  execute(message: object): void;
}

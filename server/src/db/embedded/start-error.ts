/** A reason why the program cannot start, in one line that tells its user what to do. */
export class StartError extends Error {
  override name = 'StartError';
}

/** Somebody else has the database: trying again is of no use until they are stopped. */
export class InUseError extends StartError {
  override name = 'InUseError';
}

/** Why the program cannot start and what to do, in one line. */
export class StartError extends Error {
  override name = 'StartError';
}

/** Another process uses the database, so retrying is useless until it is stopped. */
export class InUseError extends StartError {
  override name = 'InUseError';
}

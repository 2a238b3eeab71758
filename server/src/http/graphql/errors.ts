import { GraphQLError, type GraphQLFormattedError } from 'graphql';
import { toClientError } from '../error-handler.ts';

/** Returns an error of a request with the code that REST has for it. */
export function formatError(error: Readonly<Error>): GraphQLFormattedError {
  if (!(error instanceof GraphQLError))
    return { message: error.message, extensions: { code: 'bad_request' } };
  const { locations, path, message } = error;
  const place = { ...(locations ? { locations } : {}), ...(path ? { path } : {}) };
  const cause = causeOf(error);
  if (cause === undefined) return { message, ...place, extensions: { code: 'validation_failed' } };
  const { code, problems, message: text } = toClientError(cause);
  return { message: text, ...place, extensions: { code, ...(problems.length > 1 ? { problems } : {}) } };
}

/** Returns what a resolver threw; undefined for errors of the language: syntax, fields, variables. */
function causeOf({ originalError }: GraphQLError): Error | undefined {
  return originalError instanceof GraphQLError ? undefined : originalError;
}

/** The errors among those of an operation that the client did not cause. */
export function internalErrors(errors: readonly GraphQLError[] = []): Error[] {
  return errors.flatMap((error) => {
    const cause = causeOf(error);
    return cause !== undefined && toClientError(cause).status >= 500 ? [cause] : [];
  });
}

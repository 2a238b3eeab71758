/** Why a request got no response. `CLOSED`: the transport was closed. Other codes are about the network. */
export interface HttpError {
  code: string;
  message: string;
}

/** Returns an error in the form of an `HttpResult`. */
export function toHttpError(error: unknown): HttpError {
  if (!(error instanceof Error)) return { code: 'UNKNOWN', message: String(error) };
  const { code } = error as NodeJS.ErrnoException;
  return { code: typeof code === 'string' ? code : 'UNKNOWN', message: error.message };
}

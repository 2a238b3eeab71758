import type { ErrorObject } from 'ajv';
import type { FastifyRequest, preHandlerHookHandler } from 'fastify';
import type { PageQuery } from '../contract/common.ts';
import { MAX_MESSAGES, problemsOf } from '../contract/problems.ts';
import { textProblems } from '../contract/text-problems.ts';
import { ClientError } from '../errors.ts';
import { unknownPartsOf } from './brand.ts';
import { keyProblem } from './idempotency.ts';
import { cursorsProblem } from './pagination.ts';

/** The checks of a route. */
export interface Refusals {
  /** Rejects unknown headers of the brand and unknown query parameters. */
  strict: { brand: string; known: readonly string[] } | undefined;
  /** Problems of the query and the body that no schema expresses. */
  alsoWrong:
    | ((given: { query: unknown; body: unknown }) => readonly string[] | Promise<readonly string[]>)
    | undefined;
  /** Whether the route uses an Idempotency-Key. */
  keyed: boolean;
}

/** The error for a part of a request that its schema rejects: every problem, each naming its field. */
export function refusal(errors: readonly ErrorObject[], part: string): ClientError {
  // A malformed id in the path is a wrong address, and not an invalid value.
  if (part === 'params') {
    const explained = errors.filter(({ parentSchema }) => parentSchema?.['x-problem'] !== undefined);
    return new ClientError('invalid_id', problemsOf(explained));
  }
  return new ClientError('validation_failed', problemsOf(errors));
}

/**
 * Fastify stops at a wrong body. This reports, in the same response, the problems of the query, those that no
 * schema expresses and, if `strict`, unknown headers and parameters.
 */
export function refuseTogether({ strict, alsoWrong, keyed }: Refusals): preHandlerHookHandler {
  const unknownParts = strict && unknownPartsOf(strict.brand, strict.known);
  return (request, _reply, done) => {
    const problems = unknownParts?.(request) ?? [];
    problems.push(...(request.textProblems ?? textProblems(request.bodyJson, request.body)));
    const wrong: unknown = request.validationError;
    if (wrong instanceof ClientError && wrong.code === 'validation_failed') {
      problems.push(...queryProblems(request), ...wrong.problems.map(({ message }) => message));
    } else if (wrong instanceof Error) {
      done(wrong);
      return;
    }
    if (problems.length === 0) {
      done();
      return;
    }
    findMore(request, { alsoWrong, keyed }).then(
      (more) => done(new ClientError('validation_failed', [...new Set([...problems, ...more])])),
      done,
    );
  };
}

/** Problems of a request that its schemas do not express. */
async function findMore(
  { query, body, headers }: FastifyRequest,
  { alsoWrong, keyed }: Pick<Refusals, 'alsoWrong' | 'keyed'>,
): Promise<readonly string[]> {
  return [
    ...(cursorsProblem(query as PageQuery) ?? []),
    ...((await alsoWrong?.({ query, body })) ?? []).slice(0, MAX_MESSAGES),
    ...((keyed ? keyProblem(headers['idempotency-key']) : undefined) ?? []),
  ];
}

function queryProblems(request: FastifyRequest): string[] {
  const isValid = request.getValidationFunction('querystring');
  return isValid === undefined || isValid(request.query) ? [] : problemsOf(isValid.errors ?? []);
}

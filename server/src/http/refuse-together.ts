import type { ErrorObject } from 'ajv';
import type { FastifyRequest, preHandlerHookHandler } from 'fastify';
import type { PageQuery } from '../contract/common.ts';
import { MAX_MESSAGES, problemsOf } from '../contract/problems.ts';
import { textProblems } from '../contract/text-problems.ts';
import { ClientError } from '../errors.ts';
import { unknownParts } from './brand.ts';
import { keyProblem } from './idempotency.ts';
import { cursorsProblem } from './pagination.ts';

/** What a route refuses. */
export interface Refusals {
  /** Refuses headers of the brand and query parameters that are not among the known ones. */
  strict: { brand: string; known: readonly string[] } | undefined;
  /** What no schema says of the query and the body. */
  alsoWrong:
    | ((given: { query: unknown; body: unknown }) => readonly string[] | Promise<readonly string[]>)
    | undefined;
  /** An Idempotency-Key means something here. */
  keyed: boolean;
}

/** The error for a part of a request that its schema rejects: every problem, each naming its field. */
export function refusal(errors: readonly ErrorObject[], part: string): ClientError {
  // A path holds ids: a malformed one is a wrong address rather than an invalid value.
  if (part === 'params') return new ClientError('invalid_id');
  return new ClientError('validation_failed', problemsOf(errors));
}

/**
 * Fastify stops at a wrong body. This reports, in the same response, the problems of the query, those that no
 * schema expresses and, if `strict`, unknown headers and parameters.
 */
export function refuseTogether({ strict, alsoWrong, keyed }: Refusals): preHandlerHookHandler {
  return (request, _reply, done) => {
    const problems = strict === undefined ? [] : unknownParts(request, strict.brand, strict.known);
    problems.push(...textProblems(request.bodyJson, request.body));
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

/** What is wrong with a request besides what its schemas say. */
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

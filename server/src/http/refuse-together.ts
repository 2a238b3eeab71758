import type { FastifyRequest, preHandlerHookHandler } from 'fastify';
import type { PageQuery } from '../contract/common.ts';
import { ClientError } from '../errors.ts';
import { unknownParts } from './brand.ts';
import { keyProblem } from './idempotency.ts';
import { cursorsProblem } from './pagination.ts';
import { MAX_MESSAGES, problemsOf } from './problems.ts';
import { textProblems } from './text-problems.ts';

/** What a route refuses. */
export interface Refusals {
  /** What nobody knows: the brand's headers and the query's parameters that are not among these. */
  strict: { brand: string; known: readonly string[] } | undefined;
  /** What no schema says of the query and the body. */
  alsoWrong:
    | ((given: { query: unknown; body: unknown }) => readonly string[] | Promise<readonly string[]>)
    | undefined;
  /** An Idempotency-Key means something here. */
  keyed: boolean;
}

/**
 * Fastify stops at a wrong body: this names what is wrong in the query, what else is wrong and, if `strict`,
 * what nobody knows in the same answer.
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

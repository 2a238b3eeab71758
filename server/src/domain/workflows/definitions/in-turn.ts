import { oneInTurn } from '../../../lib/take-turns.ts';

/**
 * Evaluates conditions and renders inputs. Many runs take their turns at the same time, and each of these may
 * take some 20 or 40 ms.
 */
export const inTurn = oneInTurn();

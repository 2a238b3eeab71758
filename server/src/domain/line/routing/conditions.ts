import { LRUCache } from 'lru-cache';
import { type Condition, parseCondition } from '../../../lib/expression.ts';

const parsed = new LRUCache<string, Promise<Condition | { problem: string }>>({ max: 1_000 });

/** A condition that was parsed when its category was saved, parsed once more for all who need it. */
export function conditionOf(text: string): Promise<Condition | { problem: string }> {
  let parsing = parsed.get(text);
  if (parsing === undefined) {
    parsing = parseCondition(text);
    parsed.set(text, parsing);
    parsing.catch(() => parsed.delete(text));
  }
  return parsing;
}

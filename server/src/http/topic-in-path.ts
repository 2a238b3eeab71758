import { isTopic } from '../contract/topic.ts';
import { ClientError } from '../errors.ts';

/** Returns the topic in the path of a request that saves it. Throws `validation_failed` if it is none. */
export function topicInPath({ topic }: { topic: string }): string {
  if (isTopic(topic)) return topic;
  throw new ClientError('validation_failed', [
    "Param 'topic' must have 1 to 255 characters, each a letter, a digit or one of _ . - : /",
  ]);
}

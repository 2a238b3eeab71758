import { textProblems } from '../../contract/text-problems.ts';
import { ClientError } from '../../errors.ts';
import { writeJson, writtenNumbers } from '../../lib/exact-numbers.ts';
import { jsonMember } from '../../lib/json-member.ts';
import { serveTasks } from '../../lib/work-thread.ts';
import type { BodyResult, BodyTask } from './body-thread.ts';
import { bodyWithin, parseAny } from './parse-body.ts';

// The thread that parses long bodies: see body-thread.ts.
serveTasks(async (task: BodyTask) => done(task));

function done({ body, rules }: BodyTask): { result: BodyResult; transfer: ArrayBuffer[] } {
  try {
    const { value, json, longArray, hash, pages } = parseAny(Buffer.from(body.buffer), rules);
    if (pages !== undefined)
      return {
        result: { parsed: { value, numbers: [], texts: [], problems: [], hash, pages } },
        transfer: [],
      };
    const texts = Object.entries(Object(bodyWithin(value, rules))).map(
      ([name, member]): [string, Uint8Array<ArrayBuffer>] => {
        const text = name !== rules.longArray ? undefined : (longArray ?? (json && jsonMember(json, name)));
        // A copy, because a part of a buffer cannot be transferred.
        return [name, new Uint8Array(text ?? Buffer.from(writeJson(member)))];
      },
    );
    const transfer = texts.map(([, text]) => text.buffer);
    const problems = textProblems(json, value);
    return {
      result: { parsed: { value, numbers: writtenNumbers(value), texts, problems, hash } },
      transfer,
    };
  } catch (error) {
    if (!(error instanceof ClientError)) throw error;
    const { code, problems } = error;
    return {
      result: { refused: { code, messages: problems.map(({ message }) => message) } },
      transfer: [],
    };
  }
}

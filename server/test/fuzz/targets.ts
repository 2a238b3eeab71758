import { createSecretKey } from 'node:crypto';
import { Duplex } from 'node:stream';
import { setImmediate } from 'node:timers/promises';
import { GuardedClient } from '../../src/db/guarded-client.ts';
import { ResumeCursor } from '../../src/domain/after/realtime/resume-cursor.ts';
import { decodeMessages } from '../../src/domain/ground/bus/wire.ts';
import { readTrackedToken } from '../../src/domain/ground/links/links.ts';
import { readReference } from '../../src/domain/ground/links/reference.ts';
import { readUnsubscribeToken } from '../../src/domain/ground/links/signed-links.ts';
import { ClientError } from '../../src/errors.ts';
import { parseRows } from '../../src/http/bodies/parse-rows.ts';
import { parseSchedule } from '../../src/lib/cron.ts';
import { isEmailAddress } from '../../src/lib/email-address.ts';
import { readJson, writeJson } from '../../src/lib/exact-numbers.ts';
import { ConditionError, evaluate, parseCondition } from '../../src/lib/expression.ts';
import { jsonMember, scanObject } from '../../src/lib/json-member.ts';
import { verifyJwt } from '../../src/lib/jwt.ts';
import { parseTemplate, TemplateError } from '../../src/lib/template.ts';
import { isMailbox, withAsciiDomain } from '../../src/providers/shared/mime.ts';

// What reads bytes of strangers, or bytes that a network damaged. Each target throws for bytes that show a
// fault; `npm run proof:fuzz` looks for such bytes, led by the code that they reach.

const KEY = createSecretKey(Buffer.alloc(32, 7));
const DATA = {
  user: { email: 'ada@example.com', tags: ['a', 'b'] },
  input: { count: 3 },
  notification: null,
};

export const TARGETS: Readonly<Record<string, (bytes: Buffer) => unknown>> = {
  /** No text is a valid token: none of these was signed. */
  async jwt(bytes) {
    const verdict = await verifyJwt(bytes.toString(), KEY, 1_700_000_000_000);
    assert(!verdict.ok, 'a token that was not signed is accepted');
  },

  /** The scan finds what JSON.parse finds, and numbers stay as they were written. */
  json(bytes) {
    const value = parsed(bytes);
    if (value === undefined) expected([SyntaxError], () => scanObject(bytes, { name: 'a' }));
    if (typeof value !== 'object' || value === null || Array.isArray(value)) return;
    const found = jsonMember(bytes, 'a');
    const known = Object.hasOwn(value, 'a') ? JSON.stringify((value as { a: unknown }).a) : undefined;
    assert((found && JSON.stringify(JSON.parse(found.toString()))) === known, 'another member was found');
    if (known === undefined) return;
    const written = writeJson(readJson(bytes.toString()));
    assert(JSON.stringify(JSON.parse(written)) === JSON.stringify(value), 'a value was changed');
    assert(writeJson(readJson(written)) === written, 'a number was not written as it was read');
  },

  cursor(bytes) {
    const text = bytes.toString('latin1');
    const cursor = ResumeCursor.parse(text);
    assert(cursor === undefined || cursor.toString() === text, 'a cursor has two texts');
  },

  wire(bytes) {
    decodeMessages(bytes.toString());
  },

  async links(bytes) {
    const text = bytes.toString('latin1');
    assert(
      readTrackedToken(text)?.isSigned(KEY, 'c', 'https://example.com') !== true,
      'a signature is accepted',
    );
    readReference(text);
    const projects = { byId: () => ({ signingKeys: [{ key: KEY }] }) };
    const link = await readUnsubscribeToken(projects, text);
    assert(link === undefined, 'a signature is accepted');
  },

  async condition(bytes) {
    const condition = await parseCondition(bytes.toString());
    if ('problem' in condition) return;
    expected([ConditionError], () => evaluate(condition, DATA as never));
  },

  async template(bytes) {
    const template = await parseTemplate(bytes.toString());
    if ('problem' in template) return;
    template.variables();
    expected([TemplateError], () => template.render(DATA));
  },

  /** The parser of the database's driver, in which damaged bytes end at most the connection. */
  async database(bytes) {
    const socket = { connect() {}, setNoDelay() {}, ref() {}, unref() {} };
    const both = { read() {}, write: (_bytes: Buffer, _encoding: string, done: () => void) => done() };
    const stream = Object.assign(new Duplex(both), socket);
    const client = new GuardedClient({ stream: () => stream as never, user: 'belfry', password: 'secret' });
    client.on('error', () => {});
    client.connect().catch(() => {});
    stream.push(bytes);
    await setImmediate();
    stream.destroy();
  },

  csv(bytes) {
    expected([ClientError], () => parseRows(bytes, 'csv'));
  },

  ndjson(bytes) {
    expected([ClientError], () => parseRows(bytes, 'ndjson'));
  },

  schedule(bytes) {
    const [expression = '', zone = 'UTC'] = bytes.toString().split('\0');
    parseSchedule(expression, zone);
  },

  /** An address that is accepted adds no line to an e-mail. */
  mailbox(bytes) {
    const text = bytes.toString();
    const isAccepted = isEmailAddress(text) || isMailbox(text);
    assert(!isAccepted || !/[\r\n\0]/.test(withAsciiDomain(text)), 'an address has a line break');
  },
};

function parsed(bytes: Buffer): unknown {
  try {
    return JSON.parse(bytes.toString());
  } catch {
    return undefined;
  }
}

/** Errors of these classes are part of what a function promises. */
function expected(classes: readonly (abstract new (...args: never[]) => Error)[], work: () => unknown): void {
  try {
    work();
  } catch (error) {
    if (!classes.some((one) => error instanceof one)) throw error;
  }
}

function assert(holds: boolean, what: string): void {
  if (!holds) throw new Error(what);
}

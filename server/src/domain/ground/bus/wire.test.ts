import fc from 'fast-check';
import { expect, test } from 'vitest';
import { newId } from '../../../lib/ids.ts';
import { newToThese, type RealtimeMessage } from './messages.ts';
import { decodeMessages, encodeMessages, NOTIFY_FORMAT, natsFormat } from './wire.ts';

const NODE = 'host-1';
const id = fc.uuid();
const message: fc.Arbitrary<RealtimeMessage> = fc.oneof(
  fc.record({
    type: fc.constant('new' as const),
    projectId: id,
    broadcastId: id,
    userIds: fc.array(id, { maxLength: 16 }),
    sentAtMs: fc.nat(),
  }),
  fc.record(
    {
      type: fc.constant('changed' as const),
      userId: id,
      name: fc.constantFrom('read' as const, 'seen/all' as const),
      id,
      atMs: fc.nat(),
      clientId: fc.string({ unit: 'binary', maxLength: 300 }),
    },
    { requiredKeys: ['type', 'userId', 'name', 'id', 'atMs'] },
  ),
  fc.record({ type: fc.constant('many_changed' as const), userId: id }),
  fc.record({ type: fc.constant('token_discarded' as const), userId: id, tokenId: fc.string() }),
  fc.record({ type: fc.constant('project_changed' as const), projectId: id }),
  fc.record(
    { type: fc.constant('appearance_changed' as const), projectId: id, userId: id },
    { requiredKeys: ['type', 'projectId'] },
  ),
);

const decodeAll = (payloads: readonly string[]) =>
  payloads.flatMap((payload) => decodeMessages(payload)?.messages ?? []);

test('messages arrive in order, in payloads that PostgreSQL accepts', () => {
  fc.assert(
    fc.property(fc.array(message, { maxLength: 200 }), (messages) => {
      const payloads = encodeMessages(NODE, messages, NOTIFY_FORMAT);
      for (const payload of payloads) {
        expect(Buffer.byteLength(payload)).toBeLessThan(8_000);
        expect(decodeMessages(payload)?.nodeId).toBe(NODE);
      }
      expect(decodeAll(payloads)).toEqual(messages);
    }),
  );
});

const content = {
  category: 'news',
  topic: null,
  message: Buffer.from([0, 255, 7]),
  inApp: Buffer.from('{"a":"é"}'),
};

test('over NATS, the users of a page and the content are sent', () => {
  const userIds = Array.from({ length: 1_000 }, () => newId());
  const sent = { type: 'new' as const, projectId: newId(), broadcastId: newId(), sentAtMs: 5, userIds };
  const messages = [
    { ...sent, content },
    { ...sent, content: { ...content, category: null, inApp: null } },
  ];
  const payloads = encodeMessages(NODE, messages, natsFormat());
  expect(payloads).toHaveLength(1);
  expect(decodeAll(payloads)).toEqual(messages);
});

test('what does not fit into a message over NATS is read from the database', () => {
  const { userIds, ...rest } = {
    userIds: Array.from({ length: 1_001 }, () => newId()),
    ...{ projectId: newId(), broadcastId: newId(), sentAtMs: 5 },
  };
  const elsewhere = [{ type: 'new_elsewhere', ...rest }];
  const many: RealtimeMessage = { type: 'new', userIds, content, ...rest };
  expect(decodeAll(encodeMessages(NODE, [many], natsFormat()))).toEqual(elsewhere);
  const few: RealtimeMessage = { ...many, userIds: userIds.slice(0, 900) };
  // A server that is configured for small messages.
  expect(decodeAll(encodeMessages(NODE, [few], natsFormat(16_000)))).toEqual(elsewhere);
  const large = { ...content, message: Buffer.alloc(40_000) };
  const withoutContent = { type: 'new', userIds: few.userIds, ...rest };
  expect(decodeAll(encodeMessages(NODE, [{ ...few, content: large }], natsFormat()))).toEqual([
    withoutContent,
  ]);
});

test('a content that is malformed is ignored with its message', () => {
  const message = { type: 'new', projectId: 'p', broadcastId: 'b', sentAtMs: 5, userIds: ['u'] };
  for (const broken of [null, 5, {}, { ...content, message: 'x', inApp: 5 }, { message: 'x' }])
    expect(decodeAll([JSON.stringify([NODE, { ...message, content: broken }])])).toEqual([]);
});

test('a long list of users and the content are not sent to other nodes', () => {
  const userIds = Array.from({ length: 1_000 }, () => newId());
  const content = { category: null, topic: null, message: Buffer.alloc(50_000), inApp: null };
  const sent = { projectId: newId(), broadcastId: newId(), sentAtMs: 5, page: 3 };
  const payloads = encodeMessages(NODE, [{ type: 'new', userIds, content, ...sent }], NOTIFY_FORMAT);
  expect(decodeAll(payloads)).toEqual([{ type: 'new_elsewhere', ...sent }]);
});

test('a client id that is too long is left out', () => {
  const changed = { type: 'changed' as const, userId: newId(), name: 'read' as const, id: newId(), atMs: 1 };
  const long = { ...changed, clientId: '\0'.repeat(9_000) };
  expect(decodeAll(encodeMessages(NODE, [long], NOTIFY_FORMAT))).toEqual([changed]);
});

test('payloads of other programs are ignored', () => {
  for (const payload of [
    '',
    'null',
    '[]',
    '{}',
    '"x"',
    '[1]',
    '["a",null,1,{"type":"new"},{"type":"__proto__"}]',
  ]) {
    expect(decodeMessages(payload)?.messages ?? []).toEqual([]);
  }
  fc.assert(fc.property(fc.string(), (payload) => void decodeMessages(payload)));
});

test('a message for some users of a broadcast arrives with all their ids', () => {
  const userIds = Array.from({ length: 1_000 }, () => newId());
  const messages = newToThese({ projectId: newId(), broadcastId: newId(), sentAtMs: Date.now() }, userIds);
  const payloads = encodeMessages(NODE, messages, NOTIFY_FORMAT);
  for (const payload of payloads) expect(Buffer.byteLength(payload)).toBeLessThan(8_000);
  const arrived = decodeAll(payloads);
  expect(arrived).toEqual(messages);
  expect(arrived.flatMap((one) => (one.type === 'new' ? one.userIds : []))).toEqual(userIds);
});

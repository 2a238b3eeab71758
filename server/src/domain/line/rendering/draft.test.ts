import { expect, test } from 'vitest';
import { createPreparation, type StoredContent } from './draft.ts';

const broadcast = (
  changes: Partial<StoredContent['message']> = {},
  channels: StoredContent['overrides']['channels'] = {},
) => ({
  id: 'b',
  message: {
    title: 'T',
    content: '<p>One</p><p>Two &amp; more</p>',
    action_url: 'https://x.example/',
    ...changes,
  },
  overrides: { channels },
});

test('a channel has the texts of its override, and else those of the broadcast', () => {
  const prepare = createPreparation();
  const overridden = broadcast({}, { sms: { title: 'S' }, mobile_push: { content: 'P', action_url: null } });
  expect(prepare(overridden, 'sms')).toEqual({
    title: 'S',
    content: '<p>One</p><p>Two &amp; more</p>',
    actionUrl: 'https://x.example/',
    text: 'One\n\nTwo & more',
  });
  expect(prepare(overridden, 'mobile_push')).toEqual({
    title: 'T',
    content: 'P',
    actionUrl: null,
    text: 'P',
  });
  expect(prepare(overridden, 'slack')).toMatchObject({ title: 'T', text: 'One\n\nTwo & more' });
});

test('text that is no HTML stays as it is, and missing text stays missing', () => {
  const prepare = createPreparation();
  expect(prepare(broadcast({ content: ' a < b && c\n' }), 'teams')).toMatchObject({ text: 'a < b && c' });
  expect(prepare({ ...broadcast({ content: null }), id: 'c' }, 'teams')).toMatchObject({
    content: null,
    text: '',
  });
});

test('e-mail is prepared as HTML and as text', () => {
  expect(createPreparation()(broadcast(), 'email')).toMatchObject({
    email: { subject: 'T', text: 'One\n\nTwo & more\n\nhttps://x.example/' },
  });
});

test('plain text is rendered once for a broadcast and channel, however many batches it has', () => {
  const prepare = createPreparation();
  expect(prepare(broadcast({ content: 'first' }), 'sms')).toMatchObject({ text: 'first' });
  // A broadcast's content never changes. Here it does, which shows that it is rendered once.
  expect(prepare(broadcast({ content: 'later' }), 'sms')).toMatchObject({ text: 'first' });
  expect(prepare(broadcast({ content: 'later' }), 'slack')).toMatchObject({ text: 'later' });
});

test('a text contains the targets of its links, except in a push, which is a single link', () => {
  const linked = broadcast({ content: '<p>See <a href="https://x.example/1">the order</a> [new]</p>' });
  const prepare = createPreparation();
  for (const channel of ['sms', 'teams'])
    expect(prepare(linked, channel)).toMatchObject({ text: 'See the order [https://x.example/1] [new]' });
  for (const channel of ['mobile_push', 'web_push'])
    expect(prepare(linked, channel)).toMatchObject({ text: 'See the order [new]' });
});

test('inherited names of objects are not read as overrides', () => {
  expect(createPreparation()(broadcast(), 'constructor')).toMatchObject({ title: 'T' });
});

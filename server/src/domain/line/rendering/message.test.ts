import { expect, test } from 'vitest';
import { prepareTexts, type StoredContent } from './message.ts';

let made = 0;

/** A new broadcast. */
const broadcast = (
  changes: Partial<StoredContent['message']> = {},
  channels: StoredContent['overrides']['channels'] = {},
) => ({
  id: `broadcast ${++made}`,
  message: {
    title: 'T',
    content: '<p>One</p><p>Two &amp; more</p>',
    action_url: 'https://x.example/',
    ...changes,
  },
  overrides: { channels },
});

test('a channel has the texts of its override, and else those of the broadcast', () => {
  const overridden = broadcast({}, { sms: { title: 'S' }, mobile_push: { content: 'P', action_url: null } });
  expect(prepareTexts(overridden, 'sms')).toEqual({
    title: 'S',
    content: '<p>One</p><p>Two &amp; more</p>',
    actionUrl: 'https://x.example/',
    text: 'One\n\nTwo & more',
  });
  expect(prepareTexts(overridden, 'mobile_push')).toEqual({
    title: 'T',
    content: 'P',
    actionUrl: null,
    text: 'P',
  });
  expect(prepareTexts(overridden, 'slack')).toMatchObject({ title: 'T', text: 'One\n\nTwo & more' });
});

test('text that is no HTML stays as it is, and missing text stays missing', () => {
  expect(prepareTexts(broadcast({ content: ' a < b && c\n' }), 'teams')).toMatchObject({
    text: 'a < b && c',
  });
  expect(prepareTexts(broadcast({ content: null }), 'teams')).toMatchObject({
    content: null,
    text: '',
  });
});

test('e-mail is prepared as HTML and as text', () => {
  expect(prepareTexts(broadcast(), 'email')).toMatchObject({
    email: { subject: 'T', text: 'One\n\nTwo & more\n\nhttps://x.example/' },
  });
});

test('plain text is rendered once for a broadcast and channel, however many batches it has', () => {
  const { id } = broadcast();
  const withContent = (content: string) => ({ ...broadcast({ content }), id });
  expect(prepareTexts(withContent('first'), 'sms')).toMatchObject({ text: 'first' });
  // A broadcast's content never changes. Here it does, which shows that it is rendered once.
  expect(prepareTexts(withContent('later'), 'sms')).toMatchObject({ text: 'first' });
  expect(prepareTexts(withContent('later'), 'slack')).toMatchObject({ text: 'later' });
});

test('a text has nothing that the HTML of an e-mail hides, such as its preheader', () => {
  const preheader = '<div style="DISPLAY: none; max-height:0">Three days left &#847;&zwnj;</div>';
  const link = '<a style="visibility:hidden" href="https://x">y</a>';
  const content = `${preheader}<p>Hello</p><p hidden>old</p>${link}`;
  for (const channel of ['sms', 'mobile_push'])
    expect(prepareTexts(broadcast({ content }), channel)).toMatchObject({ text: 'Hello' });
  // Mail programs show a preheader beside the subject.
  const preview = expect.stringMatching(/^Three days left/);
  const email = { text: 'Hello\n\nhttps://x.example/', preview };
  expect(prepareTexts(broadcast({ content }), 'email')).toMatchObject({ email });
});

test('a text contains the targets of its links, except in a push, which is a single link', () => {
  const linked = broadcast({ content: '<p>See <a href="https://x.example/1">the order</a> [new]</p>' });
  for (const channel of ['sms', 'teams'])
    expect(prepareTexts(linked, channel)).toMatchObject({
      text: 'See the order [https://x.example/1] [new]',
    });
  for (const channel of ['mobile_push', 'web_push'])
    expect(prepareTexts(linked, channel)).toMatchObject({ text: 'See the order [new]' });
});

test('inherited names of objects are not read as overrides', () => {
  expect(prepareTexts(broadcast(), 'constructor')).toMatchObject({ title: 'T' });
});

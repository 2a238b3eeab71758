import PostalMime from 'postal-mime';
import { expect, test } from 'vitest';
import { emailMessage } from '../../../test/support/email-message.ts';
import { mailgun } from '../mailgun/index.ts';
import { sendgrid } from '../sendgrid/index.ts';
import { ses } from '../ses/index.ts';
import { encodedWords, neverEncoded } from './encoded-words.ts';
import { buildMime } from './mime.ts';

const FAKE = '=?utf-8?Q?fake?=';
const UNTOUCHED = ['Your order', 'a = b ? c : d', 'x?=y'];

const mail = (subject: string, name: string) =>
  buildMime({
    messageId: '<1@example.com>',
    boundary: '1',
    date: new Date(0),
    from: { email: 'from@example.com', name },
    to: { email: 'to@example.com', name },
    replyTo: { email: 'reply@example.com', name },
    subject,
    headers: {},
    text: 'x',
    html: 'x',
  });
const visible = (text: string | undefined) => text?.replaceAll('\u2060', '');

test.each([FAKE, `Re: ${FAKE} and ${FAKE} ü`, `${FAKE} `.repeat(40).trim(), '=?', ...UNTOUCHED])(
  'mail programs show the title %j as it was written',
  async (title) => {
    const read = await PostalMime.parse(mail(title, 'Ada'));
    expect(read.subject).toBe(title);
  },
);

test('the names of sender and recipient are encoded, too', async () => {
  const { from, to, replyTo } = await PostalMime.parse(mail('x', FAKE));
  expect([from?.name, to?.[0]?.name, replyTo?.[0]?.name].map(visible)).toEqual([FAKE, FAKE, FAKE]);
});

test('no line of the mail is too long', () => {
  for (const line of mail(`${FAKE} `.repeat(40), FAKE).toString().split('\r\n'))
    expect(line.length).toBeLessThan(79);
});

test.each(UNTOUCHED)('the text %j is given to vendors as it is', (text) => {
  expect(neverEncoded(text)).toBe(text);
});

test('vendors receive no encoded word', () => {
  const message = emailMessage({ subject: FAKE, to: { email: 'to@example.com', name: FAKE } });
  const from = { email: 'from@example.com', name: FAKE };
  const bodyOf = (built: object) => (built as { body: string }).body;
  const bodies = [
    sendgrid.build(message, { api_key: 'SG.x', from, reply_to: from }),
    ses.build(message, { key_id: 'a', secret_key: 's', region: 'eu-west-1', from } as never),
    mailgun.build(message, { api_key: 'k', domain: 'example.com', region: 'eu', from }),
  ].map(bodyOf);
  for (const body of bodies) {
    expect(body).not.toContain(FAKE);
    expect(body).toContain(neverEncoded(FAKE));
  }
  // Headers are not changed.
  expect(bodies[1]).toContain(`${encodedWords(FAKE)} <to@example.com>`);
});

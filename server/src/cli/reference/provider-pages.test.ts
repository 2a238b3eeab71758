import { expect, test } from 'vitest';
import { delivering } from '../../providers/index.ts';
import { providerPages } from './provider-pages.ts';

test('the page of every provider shows the whole example message', async () => {
  const pages = await providerPages();
  for (const name of delivering.keys()) {
    const [, sent = ''] = (pages[name] ?? '').split('## What is sent');
    // A form has only the text, and an e-mail is encoded.
    const shown = sent.split('## Limits')[0] ?? '';
    const words = name === 'twilio' ? /Body="/ : /Your order has shipped/;
    expect([name, shown]).toEqual([name, expect.stringMatching(words)]);
    for (const [, json = ''] of shown.matchAll(/```json\n([^`]*)```/g))
      expect(JSON.parse(json)).toBeTypeOf('object');
  }
});

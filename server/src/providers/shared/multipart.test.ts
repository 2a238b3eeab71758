import { expect, test } from 'vitest';
import { multipart } from './multipart.ts';

/** Parses a form with the platform. */
async function read({ contentType, body }: { contentType: string; body: string }) {
  const form = await new Response(body, { headers: { 'content-type': contentType } }).formData();
  return [...form];
}

test('a form is parsed as it was written', async () => {
  const fields: [string, string][] = [
    ['to', '"Ada" <ada@example.com>'],
    ['o:tag', 'a'],
    ['o:tag', 'b'],
    ['text', 'Zeile 1\r\nZeile 2 ✓ \ud83d\ude00'],
    ['empty', ''],
    ['html', '--form-x--\r\n--form-x\r\n\r\nnot an end'],
  ];
  expect(await read(multipart(fields, 'x'))).toEqual(fields);
});

test('no name can end its header', async () => {
  const form = multipart([['a"\r\nX: y', 'v']], 'x');
  expect(form.body).toContain('name="a%22%0D%0AX: y"');
  expect(await read(form)).toHaveLength(1);
});

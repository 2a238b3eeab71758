import { expect, test } from 'vitest';
import { collectGarbage } from '../../../../test/support/garbage.ts';
import { type Program, parseProgram } from './program.ts';

const COPIES = 4;
const repeated = (text: string) => text.repeat(2_000 / text.length);
const times = <Value>(count: number, value: Value) => Array.from({ length: count }, () => value);
const set = (value: unknown) => times(50, { command: 'set', input: { value } });
const when = (condition: string) => times(50, { command: 'set', if: condition, input: {} });

function heapUsed(): number {
  collectGarbage();
  return process.memoryUsage().heapUsed;
}

test.each<[string, object[]]>([
  ['text', set(repeated('abcd '))],
  ['names', set(repeated('{{ input.a }}'))],
  ['short outputs', set(repeated('{{1}}'))],
  ['values that are one output', set(Object.fromEntries(times(200, 0).map((_, at) => [`k${at}`, '{{1}}'])))],
  ['arguments', set(`{{ 1 | append: ${repeated('1,')}1 }}`)],
  ['members', set(`{{ input${repeated('.a')} }}`)],
  ['filters', set(`{{ 1${repeated('|abs')} }}`)],
  ['cycles', set(`{% cycle ${repeated('1,')}1 %}`)],
  ['branches', set(repeated('{%if 1%}{%endif%}'))],
  ['lines of a liquid tag', set(`{% liquid ${repeated('\necho 1')}\n%}`)],
  ['operators of a condition', when(times(80, '1==1').join('||'))],
  ['lists of a condition', when(`input.a == [${times(150, '1').join(',')}]`)],
  ['Liquid in a condition', when(times(16, '{{ input.a | upcase }} == "a"').join(' && '))],
])('the estimate of its memory covers a program of %s', async (_name, steps) => {
  const json = JSON.stringify(steps);
  const parse = () => parseProgram(JSON.parse(json));
  const { program, problems } = await parse();
  expect(problems).toEqual([]);
  const kept: Program[] = [];
  const before = heapUsed();
  while (kept.length < COPIES) kept.push((await parse()).program);
  const grown = (heapUsed() - before) / kept.length;
  expect(program.bytes).toBeGreaterThan(grown);
  expect(kept).toHaveLength(COPIES);
});

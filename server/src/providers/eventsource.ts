/** Events of another program, under the name of their source. https://github.com/cloudevents/spec/blob/main/cloudevents/spec.md#source-1 */
import { Type } from 'typebox';
import type { Integration } from './provider.ts';

const config = Type.Object(
  { source: Type.String({ description: 'Where the events come from' }) },
  { additionalProperties: false, examples: [{ source: 'shop' }] },
);

export const eventsource: Integration<typeof config> = {
  name: 'eventsource',
  docs: 'https://github.com/cloudevents/spec/blob/main/cloudevents/spec.md#source-1',
  config,
};

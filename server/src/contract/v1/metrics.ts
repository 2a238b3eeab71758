import { type Static, Type } from 'typebox';
import { oneOf } from '../common.ts';

/** Counts of broadcasts and their recipients, a row for each label. */
export const LegacyMetrics = Type.Object(
  {
    metrics: Type.Array(Type.Array(Type.Integer())),
    labels: Type.Array(Type.String()),
    schema: Type.Object({
      metric: Type.Array(
        Type.Object({ entity: Type.String(), operation: oneOf(['count', 'avg', 'sum', 'min', 'max']) }),
      ),
      label: Type.Object({ name: Type.String(), type: oneOf(['timestamp', 'string']) }),
    }),
  },
  {
    title: 'LegacyMetrics',
    examples: [
      {
        metrics: [[3, 1200]],
        labels: ['2026-01-31T00:00:00.000Z'],
        schema: {
          metric: [
            { entity: 'broadcasts', operation: 'count' },
            { entity: 'recipients', operation: 'sum' },
          ],
          label: { name: 'day', type: 'timestamp' },
        },
      },
    ],
  },
);
export type LegacyMetrics = Static<typeof LegacyMetrics>;

import { Type } from 'typebox';
import { nullable, Timestamp } from '../common.ts';

/** A time in v1: ISO 8601, or seconds since 1970 with LEGACY_TIMESTAMPS=unix. */
export const LegacyTime = Type.Union([Timestamp, Type.Integer()]);
export const NullableLegacyTime = nullable(LegacyTime);

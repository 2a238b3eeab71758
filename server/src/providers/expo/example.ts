import { response } from '../shared/guide.ts';
import type { Rejections } from '../shared/rejections.ts';

/** The smallest and the largest config that a project can save. For tests. */
export const example = { minimal: { access_token: 'x' }, full: { access_token: 'expo-token' } };

const ticket = (error: string) => response(200, { data: [{ status: 'error', details: { error } }] });

export const rejections: Rejections = [
  ['401', response(401, { errors: [{ code: 'UNAUTHORIZED' }] }), 'integration'],
  ['403', response(403, { errors: [{ code: 'UNAUTHORIZED' }] }), 'destination'],
  ['InvalidCredentials', ticket('InvalidCredentials'), 'destination'],
  ['MismatchSenderId', ticket('MismatchSenderId'), 'destination'],
  ['MessageRateExceeded', ticket('MessageRateExceeded'), 'vendor'],
];

const START = '/subscriptions/';
const UNSUBSCRIBE = /\/unsubscribe\/?$/;

/**
 * Encodes the slashes of a topic in a path of v1: the published client sends `/subscriptions/orders/1042` for
 * the topic `orders/1042`. Other paths are returned as they are.
 */
export function encodeTopic(url: string, method: string | undefined): string {
  if (!url.startsWith(START)) return url;
  const end = url.indexOf('?');
  const path = end === -1 ? url.slice(START.length) : url.slice(START.length, end);
  const suffix = (method === 'POST' && UNSUBSCRIBE.exec(path)?.[0]) || '';
  const topic = path.slice(0, path.length - suffix.length);
  return `${START}${topic.replace(/\/(?=.)/g, '%2F')}${suffix}${end === -1 ? '' : url.slice(end)}`;
}

import type { FastifyRequest } from 'fastify';

// Browsers send fewer than ten.
const MAX_MEMBERS = 30;

/** Whether the client prefers HTML to JSON, as browsers do. A client that accepts anything gets JSON. */
export function prefersHtml({ method, headers }: Pick<FastifyRequest, 'method' | 'headers'>): boolean {
  if (method !== 'GET' && method !== 'HEAD') return false;
  const qualities = qualitiesIn(headers.accept ?? '');
  return qualityOf('text/html', qualities) > qualityOf('application/json', qualities);
}

/** Whether the client can read gzip. */
export function acceptsGzip({ headers }: Pick<FastifyRequest, 'headers'>): boolean {
  const { 'accept-encoding': encodings = '' } = headers;
  const qualities = qualitiesIn(String(encodings));
  return (qualities.get('gzip') ?? qualities.get('*') ?? 0) > 0;
}

/** The quality of each member of a header such as Accept (RFC 9110, 12.4.2). */
function qualitiesIn(header: string): Map<string, number> {
  const members = header.toLowerCase().split(',', MAX_MEMBERS);
  return new Map(
    members.map((member) => {
      const [name = '', ...parameters] = member.split(';').map((part) => part.trim());
      const quality = parameters.find((parameter) => parameter.startsWith('q='))?.slice(2);
      return [name, quality === undefined ? 1 : Number(quality) || 0];
    }),
  );
}

/** The most specific range decides. */
function qualityOf(type: string, qualities: Map<string, number>): number {
  const [group] = type.split('/');
  for (const range of [type, `${group}/*`, '*/*']) {
    const quality = qualities.get(range);
    if (quality !== undefined) return quality;
  }
  return 0;
}

import scalar from '@scalar/fastify-api-reference';
import Fastify from 'fastify';

/**
 * Returns the script of the component that shows the API reference. Its package for Fastify is the smallest
 * that contains all of it, and offers it only as a route.
 */
export async function scalarScript(): Promise<string> {
  const fastify = Fastify();
  await fastify.register(scalar, { routePrefix: '/', configuration: { url: '/openapi.json' } });
  const { payload } = await fastify.inject('/js/scalar.js');
  await fastify.close();
  return payload;
}

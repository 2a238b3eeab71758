import { openapiDocuments } from '../http/openapi/document.ts';
import { printJson } from './output.ts';

/** `belfry openapi`: the document that the server has at `/v2/openapi.json`. */
export async function openapi(): Promise<void> {
  printJson((await openapiDocuments()).v2);
}

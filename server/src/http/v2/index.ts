import type { App } from '../route.ts';

/** Every v2 resource, in the order of the published description. A path that names a word comes before one with a parameter. */
export function v2Routes(_app: App): void {}

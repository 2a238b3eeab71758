import type { App } from '../route.ts';

/** Every resource of v1, in the order of the published description. */
export function v1Routes(_app: App): void {}

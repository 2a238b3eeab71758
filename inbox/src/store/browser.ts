/** Whether the browser knows that it has no network. */
export const isOffline = () => globalThis.navigator?.onLine === false;

/** Whether the user sees another tab or program. */
export const isHidden = () => globalThis.document?.visibilityState === 'hidden';

/** How long a test waits for what a slow machine does late. It ends what hangs; no test needs it to pass. */
export const PATIENCE_MS = 120_000;

const HOUR_MS = 3_600_000;

// A code by text message, or a call to hurry, is of no use on the day after.
const TEXT_MESSAGE_MS = 4 * HOUR_MS;
const OTHERS_MS = 24 * HOUR_MS;

/** For how long after it was due a delivery on a channel is tried. Afterwards it has expired. */
export function timeToLiveMs(channel: string): number {
  return channel === 'sms' ? TEXT_MESSAGE_MS : OTHERS_MS;
}

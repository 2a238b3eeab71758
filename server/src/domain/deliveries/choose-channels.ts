/** What decides on which channels outside the inbox a user is reached. */
export interface Reachability {
  /** Channels for which the project has an integration. */
  available: ReadonlySet<string>;
  /** Channels on which there is an address or a token of the user. */
  reachable: ReadonlySet<string>;
  /** Channels that the user switched off for the broadcast's category. */
  switchedOff: ReadonlySet<string>;
}

/** The channels, in no order of importance, on which the user gets the notification besides the inbox. Pure. */
export function chooseChannels({ available, reachable, switchedOff }: Reachability): string[] {
  return [...available].filter((channel) => reachable.has(channel) && !switchedOff.has(channel));
}

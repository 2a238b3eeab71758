import type { Figure } from './report.ts';

/** The arguments of a scenario. */
export interface Bench {
  /** The data directory of the server, the same for all scenarios of a run. */
  dataDir: string;
  /** Small numbers of everything, to check that it works. */
  quick: boolean;
  /** Options of the server's Node. */
  nodeArguments: readonly string[];
  figure(figure: Omit<Figure, 'part'>): void;
}

export type Scenario = (bench: Bench) => Promise<void>;

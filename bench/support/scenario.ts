import type { Figure } from './report.ts';

/** What a scenario is given. */
export interface Bench {
  /** Where the server keeps its data: the same for all scenarios of a run. */
  dataDir: string;
  /** Less of everything: to see that it works, not how fast. */
  quick: boolean;
  /** For the server's Node. */
  nodeArguments: readonly string[];
  figure(figure: Omit<Figure, 'part'>): void;
}

export type Scenario = (bench: Bench) => Promise<void>;

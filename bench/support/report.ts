import { mkdirSync, writeFileSync } from 'node:fs';
import { cpus, totalmem } from 'node:os';
import { join } from 'node:path';

/** One figure, with its target. */
export interface Figure {
  part: string;
  name: string;
  value: number;
  unit: string;
  /** The target, in the same unit, and whether more is better. */
  aim?: { value: number; better: 'more' | 'less' };
  note?: string;
}

/** Collects figures, prints each, and saves all at the end. */
export class Report {
  readonly #figures: Figure[] = [];

  add(figure: Figure): void {
    this.#figures.push(figure);
    console.log(lineOf(figure));
  }

  /** Writes everything to a JSON file in `folder` and returns its path. */
  save(folder: string, options: Readonly<Record<string, unknown>>): string {
    mkdirSync(folder, { recursive: true });
    const at = new Date().toISOString();
    const file = join(folder, `${at.replaceAll(':', '-')}.json`);
    const machine = {
      cpus: cpus().length,
      model: cpus()[0]?.model,
      memoryBytes: totalmem(),
      node: process.version,
    };
    writeFileSync(file, `${JSON.stringify({ at, machine, options, figures: this.#figures }, null, 2)}\n`);
    return file;
  }
}

function lineOf({ part, name, value, unit, aim, note }: Figure): string {
  const wanted = aim === undefined ? '' : `${aim.better === 'more' ? '≥' : '≤'} ${shown(aim.value)}`;
  const met =
    aim === undefined ? ' ' : (aim.better === 'more' ? value >= aim.value : value <= aim.value) ? '✓' : '✗';
  const columns = [name.padEnd(62), shown(value).padStart(10), unit.padEnd(18), met, wanted.padEnd(10)];
  return `(${part}) ${columns.join(' ')} ${note ?? ''}`.trimEnd();
}

function shown(value: number): string {
  if (!Number.isFinite(value)) return '–';
  const digits = Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 10 ? 1 : 2;
  return value.toLocaleString('en-US', { minimumFractionDigits: digits, maximumFractionDigits: digits });
}

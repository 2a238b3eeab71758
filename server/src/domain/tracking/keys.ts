import type { KeyObject } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import { cacheLimit } from '../../lib/cache-limit.ts';
import type { ProjectCache } from '../projects/cache.ts';

const MAX_PROJECTS = 10_000;

/**
 * The keys that tracked links are signed with. One that was known is known for as long as this process runs, also while the database is
 * away: a link in an e-mail has to lead to where it says.
 */
export class LinkKeys {
  readonly #projects: Pick<ProjectCache, 'byId'>;
  readonly #known = new LRUCache<string, KeyObject>(cacheLimit(MAX_PROJECTS));

  constructor({ projects }: { projects: Pick<ProjectCache, 'byId'> }) {
    this.#projects = projects;
  }

  /** The key of a project; undefined where there is none. A promise only where the database has to be asked. */
  of(projectId: string): KeyObject | undefined | Promise<KeyObject | undefined> {
    const project = this.#projects.byId(projectId);
    if (!(project instanceof Promise)) return this.#keep(projectId, project);
    const asked = project.then((found) => this.#keep(projectId, found));
    const known = this.#known.get(projectId);
    if (known === undefined) return asked;
    asked.catch(() => {}); // the next one asks again
    return known;
  }

  #keep(projectId: string, project: { signingKey: KeyObject } | undefined): KeyObject | undefined {
    if (project === undefined) this.#known.delete(projectId);
    else this.#known.set(projectId, project.signingKey);
    return project?.signingKey;
  }
}

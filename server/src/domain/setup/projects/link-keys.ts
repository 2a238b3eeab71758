import { LRUCache } from 'lru-cache';
import { cacheLimit } from '../../../lib/cache-limit.ts';
import type { Project, ProjectCache } from './cache.ts';

const MAX_PROJECTS = 10_000;

type Keys = Project['signingKeys'];

/**
 * The keys that tracked links are signed with: a project's current one and its former ones, also those that
 * have ended. One that was known is known for as long as this process runs, also while the database is away:
 * a link in an e-mail has to lead to where it says.
 */
export class LinkKeys {
  readonly #projects: Pick<ProjectCache, 'byId'>;
  readonly #known = new LRUCache<string, Keys>(cacheLimit(MAX_PROJECTS));

  constructor({ projects }: { projects: Pick<ProjectCache, 'byId'> }) {
    this.#projects = projects;
  }

  /**
   * The keys of a project; undefined where there is none. A promise only where the database has to be asked.
   */
  of(projectId: string): Keys | undefined | Promise<Keys | undefined> {
    const project = this.#projects.byId(projectId);
    if (!(project instanceof Promise)) return this.#keep(projectId, project);
    const asked = project.then((found) => this.#keep(projectId, found));
    const known = this.#known.get(projectId);
    if (known === undefined) return asked;
    asked.catch(() => {}); // the next one asks again
    return known;
  }

  #keep(projectId: string, project: Pick<Project, 'signingKeys'> | undefined): Keys | undefined {
    if (project === undefined) this.#known.delete(projectId);
    else this.#known.set(projectId, project.signingKeys);
    return project?.signingKeys;
  }
}

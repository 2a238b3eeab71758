import { LRUCache } from 'lru-cache';
import { cacheLimit } from '../../../lib/cache-limit.ts';
import type { Project, ProjectCache } from './cache.ts';

const MAX_PROJECTS = 10_000;

type Keys = Project['signingKeys'];

/**
 * Caches the keys that verify tracked links: the current and all former keys of a project. Keeps them while
 * the database is unavailable, so that links in e-mails still work.
 */
export class LinkKeys {
  readonly #projects: Pick<ProjectCache, 'byId'>;
  readonly #known = new LRUCache<string, Keys>(cacheLimit(MAX_PROJECTS));

  constructor({ projects }: { projects: Pick<ProjectCache, 'byId'> }) {
    this.#projects = projects;
  }

  /** Returns the keys of a project, if it exists. Returns a promise only if it queries the database. */
  of(projectId: string): Keys | undefined | Promise<Keys | undefined> {
    const project = this.#projects.byId(projectId);
    if (!(project instanceof Promise)) return this.#keep(projectId, project);
    const loading = project.then((found) => this.#keep(projectId, found));
    const known = this.#known.get(projectId);
    if (known === undefined) return loading;
    loading.catch(() => {}); // the next call queries the database
    return known;
  }

  #keep(projectId: string, project: Pick<Project, 'signingKeys'> | undefined): Keys | undefined {
    if (project === undefined) this.#known.delete(projectId);
    else this.#known.set(projectId, project.signingKeys);
    return project?.signingKeys;
  }
}

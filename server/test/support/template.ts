/** The database that is migrated once in a run and cloned for every test file. */
export const TEMPLATE = 'template_belfry';

/** The database that is migrated once per run and cloned for every test file. */
export const TEMPLATE = 'template_belfry';

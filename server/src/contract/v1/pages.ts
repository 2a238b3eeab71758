import { Type } from 'typebox';

/** The parameters of a list with numbered pages. */
export const pageNumber = Type.Optional(
  Type.Integer({
    minimum: 1,
    default: 1,
    description: 'The number of the page. One beyond the end is empty.',
  }),
);
export const perPage = (preset: number) =>
  Type.Optional(
    Type.Integer({ minimum: 1, maximum: 100, default: preset, description: 'The size of a page.' }),
  );

/** The query of a list with 20 records on a page. */
export const NumberedPageQuery = Type.Object({ page: pageNumber, per_page: perPage(20) });

/** The members of a numbered page, without its records. */
export const numberedPage = (records: string) => ({
  total: Type.Integer({ description: `The number of ${records} on all pages.` }),
  per_page: Type.Integer({ description: 'The size of a page.' }),
  total_pages: Type.Integer({ description: 'The number of pages.' }),
  current_page: Type.Integer({ description: 'The number of this page.' }),
});

/** The groups of the sidebar, in the order in which a newcomer reads them. */
const GROUPS: readonly { title: string; pages: readonly string[] }[] = [
  {
    title: 'Start',
    pages: [
      'docs/README.md',
      'docs/guides/first-steps.md',
      'docs/concepts.md',
      'docs/authentication.md',
      'docs/glossary.md',
    ],
  },
  {
    title: 'Send',
    pages: [
      'docs/guides/channels.md',
      'docs/guides/email.md',
      'docs/guides/mobile-push.md',
      'docs/guides/text-messages.md',
      'docs/guides/chat.md',
      'docs/guides/templates.md',
      'docs/guides/workflows.md',
      'docs/guides/deliveries.md',
      'docs/guides/tracking.md',
      'docs/guides/suppressions.md',
    ],
  },
  {
    title: 'Show',
    pages: ['inbox/README.md', 'docs/guides/web-push.md', 'docs/guides/realtime.md'],
  },
  {
    title: 'Users',
    pages: [
      'docs/guides/users.md',
      'docs/guides/acting-for-users.md',
      'docs/guides/importing-users.md',
      'docs/guides/erasing-users.md',
    ],
  },
  {
    title: 'Connect',
    pages: [
      'sdk/README.md',
      'docs/guides/webhooks.md',
      'docs/guides/receipts.md',
      'docs/guides/graphql.md',
      'docs/guides/moving.md',
      'docs/guides/from-v1.md',
      'docs/reference/errors.md',
      'docs/reference/events.md',
    ],
  },
  { title: 'More', pages: ['docs/guides/*'] },
  { title: 'Providers', pages: ['docs/reference/providers/index.md', 'docs/reference/providers/*'] },
  {
    title: 'Operate',
    pages: [
      'docs/guides/deploying.md',
      'docs/guides/operations.md',
      'docs/guides/backups.md',
      'docs/guides/sizing.md',
      'docs/guides/load-testing.md',
      'docs/guides/cells.md',
      'docs/guides/upgrading.md',
      'docs/guides/command-line.md',
      'docs/reference/settings.md',
      'docs/performance.md',
      'docs/state-machines.md',
      'docs/proofs.md',
    ],
  },
];

/** Returns the groups with the files that exist. A page is in the first group that names it. */
export function groupsOf(files: readonly string[]): { title: string; files: string[] }[] {
  const named = new Set(GROUPS.flatMap(({ pages }) => pages));
  const matching = (page: string) =>
    page.endsWith('/*')
      ? files.filter((file) => file.startsWith(page.slice(0, -1)) && !named.has(file))
      : files.filter((file) => file === page);
  return GROUPS.map(({ title, pages }) => ({ title, files: pages.flatMap(matching) })).filter(
    (group) => group.files.length > 0,
  );
}

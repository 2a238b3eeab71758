/** The smallest and the largest config that a project can save. For tests. */
export const example = {
  minimal: {},
  full: {
    images: { emptyInboxUrl: 'https://x.example/empty.png' },
    locale: 'de-CH',
    theme: {
      notification: {
        default: {
          margin: '0',
          fontFamily: 'inherit',
          fontSize: '14px',
          textColor: '#000',
          borderRadius: '4px',
          backgroundColor: '#fff',
          hover: { backgroundColor: '#eee' },
        },
        hover: { backgroundColor: '#eee' },
        state: { color: '#f00' },
        unseen: {
          textColor: '#000',
          backgroundColor: '#fff',
          state: { color: '#f00' },
          hover: { backgroundColor: '#eee' },
        },
        unread: { textColor: '#000', backgroundColor: '#fff', hover: { backgroundColor: '#eee' } },
      },
      banner: { backgroundColor: '#fff', backgroundOpacity: 0.5, fontSize: '14px', textColor: '#000' },
      dialog: { accentColor: '#f00', backgroundColor: '#fff', textColor: '#000' },
      footer: { backgroundColor: '#fff', borderRadius: '0', fontSize: '14px', textColor: '#000' },
      header: {
        backgroundColor: '#fff',
        borderRadius: '0',
        fontSize: '14px',
        textColor: '#000',
        fontFamily: 'inherit',
      },
      icon: { borderColor: '#000', width: '24px' },
      unseenBadge: { backgroundColor: '#f00' },
    },
  },
};

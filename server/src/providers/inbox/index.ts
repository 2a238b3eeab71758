/**
 * The in-app inbox. Sends nothing: its config is the appearance of the inbox widget. The keys are those of
 * the widget and stay camelCase.
 */
import { type Static, type TProperties, Type } from 'typebox';
import { nullable, storedString } from '../../contract/common.ts';
import type { Integration, TokenCollection } from '../provider.ts';
import { MAX_TOKEN, tokenSchemas } from '../shared/tokens.ts';

const css = (description: string) => Type.String({ description: `${description}, a CSS value` });
const closed = <P extends TProperties>(title: string, properties: P) =>
  Type.Object(properties, { title, additionalProperties: false });

const hover = closed('InboxThemeHover', { backgroundColor: css('Background under the pointer') });
const state = closed('InboxThemeState', { color: css('Colour of the dot that marks the state') });

const unopened = closed('InboxThemeNotificationState', {
  textColor: css('Text colour'),
  backgroundColor: css('Background'),
  hover: Type.Optional(hover),
  state: Type.Optional(state),
});

const theme = closed('InboxTheme', {
  notification: Type.Optional(
    closed('InboxThemeNotification', {
      default: closed('InboxThemeNotificationDefault', {
        margin: css('Space around a notification'),
        fontFamily: css('Typeface'),
        fontSize: css('Text size'),
        textColor: css('Text colour'),
        borderRadius: css('Corner radius'),
        backgroundColor: css('Background'),
        hover: Type.Optional(hover),
        state: Type.Optional(state),
      }),
      hover: Type.Optional(hover),
      state: Type.Optional(state),
      unseen: unopened,
      unread: unopened,
    }),
  ),
  banner: Type.Optional(
    closed('InboxThemeBanner', {
      backgroundColor: css('Background'),
      backgroundOpacity: Type.Optional(Type.Number({ description: 'Opacity of the background, 0 to 1' })),
      fontSize: css('Text size'),
      textColor: css('Text colour'),
    }),
  ),
  dialog: Type.Optional(
    closed('InboxThemeDialog', {
      accentColor: css('Colour of switches'),
      backgroundColor: css('Background'),
      textColor: css('Text colour'),
    }),
  ),
  footer: Type.Optional(
    closed('InboxThemeFooter', {
      backgroundColor: css('Background'),
      borderRadius: css('Corner radius'),
      fontSize: css('Text size'),
      textColor: css('Text colour'),
    }),
  ),
  header: Type.Optional(
    closed('InboxThemeHeader', {
      backgroundColor: css('Background'),
      borderRadius: css('Corner radius'),
      fontFamily: css('Typeface'),
      fontSize: css('Text size'),
      textColor: css('Text colour'),
    }),
  ),
  icon: Type.Optional(closed('InboxThemeIcon', { borderColor: css('Outline'), width: css('Width') })),
  unseenBadge: Type.Optional(closed('InboxThemeUnseenBadge', { backgroundColor: css('Background') })),
});

const config = closed('InboxIntegrationConfigInput', {
  images: Type.Optional(
    Type.Union([
      closed('InboxImages', {
        emptyInboxUrl: Type.String({ description: 'URL of the picture in an empty inbox' }),
      }),
      Type.Null(),
    ]),
  ),
  locale: Type.Optional(
    Type.Union([
      Type.String({ minLength: 2, description: 'Language of the widget, an ISO tag' }),
      Type.Null(),
    ]),
  ),
  theme: Type.Optional(Type.Union([theme, Type.Null()])),
});

const tokenMembers = {
  token: storedString({
    minLength: 64,
    maxLength: MAX_TOKEN,
    description: 'A random text that you generate. It is a secret: it authenticates the realtime connection.',
    examples: ['q3ZtV9cKp1mXw7RbY5nJd0LhUf8TgE2sAvC6oIiNxMyDkPzQrWjBlGuHeFtSaO4R'],
  }),
};

const tokenSchema = tokenSchemas('InboxToken', {
  save: {
    ...tokenMembers,
    connection_id: Type.Optional(
      nullable(
        storedString({ maxLength: 255, description: 'Restricts delivery to this one realtime connection.' }),
      ),
    ),
  },
  saved: { ...tokenMembers, connection_id: nullable(Type.String()) },
});
type InboxToken = Static<typeof tokenSchema.save>;

/** Tokens that authenticate realtime connections. */
const tokens: TokenCollection<InboxToken> = {
  collection: 'in_app/inbox',
  kind: 'device',
  ...tokenSchema,
  identity: ({ token }) => ({ text: token }),
  stored: ({ token, connection_id }) => ({ token, connection_id: connection_id ?? null }),
};

export const inbox: Integration<typeof config> & { channel: 'in_app' } = {
  name: 'inbox',
  title: 'The in-app inbox',
  channel: 'in_app',
  docs: 'https://www.rfc-editor.org/rfc/rfc5646',
  config,
  tokens,
  complete,
};

/** Adds missing keys as `null`, because the widget reads all three unconditionally. */
function complete({
  images = null,
  locale = null,
  theme = null,
}: Static<typeof config>): Static<typeof config> {
  return { images, locale, theme };
}

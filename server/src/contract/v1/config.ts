import { Type } from 'typebox';
import { exampleId } from '../common.ts';

const switchOf = (description: string) => Type.Object({ enabled: Type.Boolean({ description }) });

/** What a client of v1 needs to know before it shows the inbox. */
export const LegacyConfig = Type.Object(
  {
    ws: Type.Object({ channel: Type.String({ description: 'The id of the user.' }) }),
    inbox: Type.Object({
      features: Type.Intersect([
        Type.Object({ notification_preferences: switchOf('Whether the inbox shows preferences.') }),
        Type.Record(Type.String(), switchOf('Another feature, such as an inbox without branding.')),
      ]),
    }),
    channels: Type.Object({
      web_push: Type.Object({
        enabled: Type.Boolean({ description: 'Whether the project has an integration for web push.' }),
        config: Type.Object({
          subscribe_url: Type.Optional(
            Type.String({
              description:
                'A page on which the user turns on notifications in a browser. It authenticates the user ' +
                'for an hour.',
            }),
          ),
          vapid_authentication: Type.Optional(Type.Object({ public_key: Type.String() })),
        }),
      }),
    }),
  },
  {
    title: 'LegacyConfig',
    examples: [
      {
        ws: { channel: exampleId },
        inbox: { features: { notification_preferences: { enabled: true } } },
        channels: { web_push: { enabled: false, config: {} } },
      },
    ],
  },
);

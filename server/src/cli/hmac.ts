import { saveProjectSettings } from '../domain/setup/projects/save-settings.ts';
import { print, printJson } from './output.ts';
import { withProject } from './with-cells.ts';
import { linked } from './with-context.ts';

/** `belfry project hmac`: sets whether users of the v1 API must prove who they are by an HMAC. */
export async function hmacCommand(
  need: 'required' | 'optional',
  { project, json }: { project?: string; json?: boolean },
): Promise<void> {
  const required = need === 'required';
  const { name, notified } = await withProject(project, async (context, { id, name }) => {
    const notified = await linked(context);
    await saveProjectSettings(context, id, { hmac_required: required });
    return { name, notified };
  });
  if (json) return printJson({ hmac_required: required });
  print(
    required
      ? `Users of the v1 API of ${name} must prove who they are by an HMAC.`
      : `Users of the v1 API of ${name} need no HMAC: everyone who knows the public API key and guesses an ` +
          'external id can read the inbox of that user.',
  );
  if (!notified) print('\nRunning servers apply it within seconds.');
}

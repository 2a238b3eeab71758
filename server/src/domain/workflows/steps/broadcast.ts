import type { NewBroadcast, Recipient } from '../../../contract/broadcast.ts';
import { prepareBroadcast } from '../../line/accept/send-broadcast.ts';
import type { Command } from './command.ts';

type Input = Omit<NewBroadcast, 'recipients'> & Partial<Pick<NewBroadcast, 'recipients'>>;

/** Sends a broadcast, by default to the user of the run. */
export const broadcast: Command<Input> = {
  sends: true,
  async begin(context, { projectId, user, input, broadcastId: id }) {
    const { recipients = user === null ? undefined : [recipientOf(user)], ...rest } = input;
    if (recipients === undefined)
      return { kind: 'fail', error: "Param 'recipients' is missing, and the run has no user" };
    const broadcast = await prepareBroadcast(context, { id: projectId }, { ...rest, recipients }, { id });
    return { kind: 'done', output: { id }, broadcastId: id, ...(broadcast && { broadcast }) };
  },
};

function recipientOf({
  external_id,
  email,
}: {
  external_id: string | null;
  email: string | null;
}): Recipient {
  return external_id === null ? { email } : { external_id };
}

import { domainToASCII } from 'node:url';
import { type Static, Type } from 'typebox';
import { described, nullable } from '../../contract/common.ts';
import { oneLine } from '../../lib/one-line.ts';
import type { Rejection } from '../provider.ts';
import { encodedWords, looksEncoded, neverEncoded } from './encoded-words.ts';
import { withAsciiDomain } from './mime.ts';

const Mailbox = Type.Object(
  {
    email: Type.String({ format: 'email', description: 'E-mail address' }),
    name: Type.Optional(nullable(Type.String({ description: 'Name shown beside the address' }))),
  },
  { title: 'Mailbox', additionalProperties: false },
);
type Mailbox = Static<typeof Mailbox>;

/** The sender or reply-to mailbox in the configuration of an e-mail integration. */
export const mailbox = (description: string) => described(Mailbox, description);

/** The outcome for a recipient that is not an e-mail address. */
export const NO_ADDRESS: Rejection = {
  kind: 'rejected',
  scope: 'address',
  code: 'invalid_address',
  reason: 'this is not an e-mail address',
};

/** The outcome without a sender: the integration has none (`from`), or the override removes it. */
export function noSender(from: Mailbox | undefined): Rejection {
  return from === undefined
    ? {
        kind: 'rejected',
        scope: 'config',
        code: 'no_sender',
        reason: 'the integration has no sender: set its from',
      }
    : {
        kind: 'rejected',
        scope: 'message',
        code: 'bad_override',
        reason: 'the override removes the sender',
      };
}

/** Returns the mailbox without an empty name. */
export function normalizeMailbox({ email, name }: Mailbox): { email: string; name?: string } {
  const shown = oneLine(name ?? '').trim();
  return shown === '' ? { email } : { email, name: neverEncoded(shown) };
}

/**
 * Returns the mailbox as a header of an e-mail, in ASCII unless the local part is not: `"Ada L"
 * <ada@example.com>` (RFC 5322, RFC 2047).
 */
export function formatMailbox({ email, name }: Mailbox): string {
  const address = withAsciiDomain(email);
  const shown = oneLine(name ?? '')
    .trim()
    .slice(0, MAX_NAME_LENGTH);
  if (shown === '') return address;
  if (/^\p{ASCII}*$/u.test(shown) && !looksEncoded(shown))
    return `"${shown.replace(/["\\]/g, '\\$&')}" <${address}>`;
  return `${encodedWords(shown)} <${address}>`;
}

/** Returns the Message-ID of a delivery, the same for every attempt. */
export function messageId(deliveryId: string, { email }: Mailbox): string {
  return `<${deliveryId}@${domainToASCII(email.slice(email.lastIndexOf('@') + 1))}>`;
}

const MAX_NAME_LENGTH = 128; // with the address it must fit in one line of an e-mail

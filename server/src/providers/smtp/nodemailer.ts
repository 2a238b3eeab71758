import { createRequire } from 'node:module';
import type MimeNode from 'nodemailer/lib/mime-node';
import type * as QuotedPrintable from 'nodemailer/lib/qp';
import type SMTPConnection from 'nodemailer/lib/smtp-connection';
import type SMTPPool from 'nodemailer/lib/smtp-pool';

interface Parts {
  MimeNode: typeof MimeNode;
  quotedPrintable: typeof QuotedPrintable;
  SMTPConnection: typeof SMTPConnection;
  SMTPPool: typeof SMTPPool;
}

const require = createRequire(import.meta.url);
let parts: Parts | undefined;

/**
 * Returns the parts of nodemailer that we use. Loaded with the first e-mail, because they take 4 MB; by
 * `require`, because messages are built synchronously.
 */
export function nodemailer(): Parts {
  parts ??= {
    MimeNode: require('nodemailer/lib/mime-node') as typeof MimeNode,
    quotedPrintable: require('nodemailer/lib/qp') as typeof QuotedPrintable,
    SMTPConnection: require('nodemailer/lib/smtp-connection') as typeof SMTPConnection,
    SMTPPool: require('nodemailer/lib/smtp-pool') as typeof SMTPPool,
  };
  return parts;
}

/** A mail server with scripted replies, valid or not. */
import { createServer, type Socket } from 'node:net';

export type Stage = 'GREETING' | 'EHLO' | 'HELO' | 'AUTH' | 'MAIL' | 'RCPT' | 'DATA' | 'BODY' | 'END';

/**
 * The reply to a command, or `cut` to break the connection, `reset` to break it with an error, `end` to close
 * it, `half` to close it within a line, `hang` to neither read nor write, `trickle` to reply without end.
 */
export type Step = string | 'cut' | 'reset' | 'end' | 'half' | 'hang' | 'trickle';

const USUAL: Record<Stage, Step> = {
  GREETING: '220 script ESMTP',
  EHLO: '250-script\r\n250-AUTH PLAIN\r\n250 8BITMIME',
  HELO: '250 script',
  AUTH: '235 2.7.0 ok',
  MAIL: '250 2.1.0 ok',
  RCPT: '250 2.1.5 ok',
  DATA: '354 go on',
  BODY: '',
  END: '250 2.0.0 Ok: queued as 4Script',
};

export interface SmtpScript {
  port: number;
  /** Whether a conversation has come to this stage. */
  reached(stage: Stage): boolean;
  /** Replies as usual from now on. */
  heal(): void;
  stop(): Promise<void>;
}

/** Starts the server on loopback. `steps` replaces some of the usual replies. */
export async function startSmtpScript(
  steps: Partial<Record<Stage, Step>>,
  { pipelining = false }: { pipelining?: boolean } = {},
): Promise<SmtpScript> {
  const usual = { ...USUAL, ...(pipelining ? { EHLO: `250-PIPELINING\r\n${USUAL.EHLO}` } : {}) };
  const script = { ...usual, ...steps };
  const sockets = new Set<Socket>();
  const reached = new Set<Stage>();
  const server = createServer({ noDelay: true }, (socket) => {
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket));
    socket.on('error', () => {}); // the client may break the connection, too
    converse(socket, script, reached);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  return {
    reached: (stage) => reached.has(stage),
    heal: () => void Object.assign(script, usual),
    port: typeof address === 'object' && address !== null ? address.port : 0,
    stop: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        for (const socket of sockets) socket.destroy();
      }),
  };
}

function converse(socket: Socket, script: Record<Stage, Step>, reached: Set<Stage>): void {
  let received = '';
  let inBody = false;
  let recipientRefused = false;
  let silent = false;

  function act(stage: Stage): void {
    const step = script[stage];
    reached.add(stage);
    if (step === 'cut') socket.destroy();
    else if (step === 'reset') socket.resetAndDestroy();
    else if (step === 'end' || step === 'half') socket.end(step === 'half' ? '250 2.0' : '');
    else if (step === 'hang') {
      silent = true;
      socket.pause();
    } else if (step === 'trickle') {
      silent = true;
      const timer = setInterval(() => socket.write('2'), 20);
      socket.once('close', () => clearInterval(timer));
    } else if (step !== '') socket.write(`${step}\r\n`);
  }

  act('GREETING');
  socket.setEncoding('latin1').on('data', (chunk: string) => {
    received += chunk;
    while (!silent && !socket.destroyed) {
      if (inBody) {
        if (script.BODY !== '') return act('BODY');
        const end = received.indexOf('\r\n.\r\n');
        if (end === -1) return;
        received = received.slice(end + 5);
        inBody = false;
        act('END');
        continue;
      }
      const end = received.indexOf('\r\n');
      if (end === -1) return;
      const verb = received.slice(0, end).split(/[ :]/)[0]?.toUpperCase() ?? '';
      received = received.slice(end + 2);
      if (verb === 'RCPT') recipientRefused = !script.RCPT.startsWith('2');
      if (verb === 'DATA' && recipientRefused) {
        // The client sent DATA before it got the reply to RCPT.
        socket.write('554 5.5.1 no valid recipients\r\n');
        continue;
      }
      if (verb in script) act(verb as Stage);
      else socket.write(verb === 'QUIT' ? '221 bye\r\n' : verb === 'RSET' ? '250 ok\r\n' : '500 what?\r\n');
      if (verb === 'DATA' && script.DATA.startsWith('3')) inBody = true;
    }
  });
}

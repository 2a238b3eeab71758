import { SMTPServer } from 'smtp-server';
import { serveTask } from '../support/task.ts';

// A mail server that drops its mail, for machines without Postfix's smtp-sink.

serveTask(async () => {
  const server = new SMTPServer({
    disabledCommands: ['AUTH', 'STARTTLS'],
    onData(stream, _session, done) {
      stream.on('end', done);
      stream.resume();
    },
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.server.address();
  return typeof address === 'object' ? address?.port : 0;
});

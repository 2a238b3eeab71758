import type { Writable } from 'node:stream';

// Above it a socket is written to at once: a system call hardly costs more than the copy.
const MAX_CORKED_BYTES = 16 * 1024;
// Half a millisecond of system calls. In between, the event loop serves requests and the database.
const SOCKETS_PER_TURN = 100;

const corked = new Set<Writable>();

/**
 * Writes with one system call what waits for a socket at the end of this turn of the event loop: broadcasts
 * that are committed together give each user several frames. Of many sockets, some wait for later turns, and
 * gather more frames.
 */
export function writeTogether(socket: Writable, data: string | Uint8Array): void {
  if (!corked.has(socket)) {
    socket.cork();
    corked.add(socket);
    if (corked.size === 1) process.nextTick(uncorkSome);
  }
  socket.write(data);
  if (socket.writableLength > MAX_CORKED_BYTES) uncork(socket);
}

function uncorkSome(): void {
  let count = 0;
  for (const socket of corked) {
    if (count === SOCKETS_PER_TURN) break;
    uncork(socket);
    count += 1;
  }
  if (corked.size > 0) setImmediate(uncorkSome);
}

function uncork(socket: Writable): void {
  corked.delete(socket);
  socket.uncork();
}

import { randomFillSync } from 'node:crypto';
import { systemClock } from './clock.ts';

/**
 * Returns a UUIDv7 (RFC 9562): 48 bits of unix milliseconds, 4 version bits, a 12-bit counter within the
 * millisecond, 2 variant bits and 62 random bits. The ids of a process are strictly ascending, so they sort
 * by creation and serve as cursors.
 */
export function newId(nowMs: number = systemClock.now()): string {
  if (nowMs > lastMs) {
    lastMs = nowMs;
    counter = 0;
    lastTime = timeText(lastMs);
  } else if (++counter > 0xfff) {
    lastMs += 1; // counter overflow: borrow from the next millisecond
    counter = 0;
    lastTime = timeText(lastMs);
  }
  return format(lastTime, counter, randomHex());
}

/** Lets the next id have the current time if the last is of a time after `nowMs`, made by a wrong clock. */
export function resetIds(nowMs = 0): void {
  if (lastMs > nowMs) lastMs = 0;
}

/** Returns the smallest possible id of a record created at `ms`, for use as a cursor. */
export function firstIdAt(ms: number): string {
  return format(timeText(ms), 0, '8000000000000000');
}

/** Returns the time in an id, in unix milliseconds. */
export function timeOf(id: string): number {
  return Number.parseInt(id.slice(0, 8) + id.slice(9, 13), 16);
}

/**
 * Returns the id of the notification of a broadcast for a user: the broadcast's time and counter, and the XOR
 * of the random bits of both ids. It needs no lookup and is always the same, so a repeated fan-out writes
 * each notification once.
 */
export function notificationId(broadcastId: string, userId: string): string {
  // Byte by byte from tables, because it is called often: parsing and formatting numbers takes four times as
  // long.
  const first = byteAt(broadcastId, 19) ^ byteAt(userId, 19);
  let text = broadcastId.slice(0, 19) + BYTES[(first & 0x3f) | 0x80];
  text += `${BYTES[byteAt(broadcastId, 21) ^ byteAt(userId, 21)]}-`;
  for (let at = 24; at < 36; at += 2) text += BYTES[byteAt(broadcastId, at) ^ byteAt(userId, at)];
  return text;
}

/** Each byte as two hexadecimal digits, and the value of each digit by its character code. */
const BYTES = Array.from({ length: 256 }, (_, byte) => hex(byte, 2));
const DIGITS = new Uint8Array(128);
for (let digit = 0; digit < 16; digit += 1)
  for (const character of [hex(digit, 1), hex(digit, 1).toUpperCase()])
    DIGITS[character.charCodeAt(0)] = digit;

function byteAt(id: string, at: number): number {
  return ((DIGITS[id.charCodeAt(at)] ?? 0) << 4) | (DIGITS[id.charCodeAt(at + 1)] ?? 0);
}

const pattern = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;

/** Whether a string is a UUID of any version. */
export function isId(text: string): boolean {
  return pattern.test(text);
}

/** Returns the 16 bytes of a UUID. */
export function bytesOfId(id: string): Buffer {
  return Buffer.from(id.replaceAll('-', ''), 'hex');
}

/** Returns the UUID of 16 bytes. */
export function idOfBytes(bytes: Buffer): string {
  return bytes.toString('hex').replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-');
}

let lastMs = 0;
// Formatted once per millisecond: formatting a number beyond 32 bits takes longer than the rest of an id.
let lastTime = timeText(lastMs);
let counter = 0;

// Random bytes for 512 ids at a time: a call for 8 bytes takes longer than the rest of an id.
const pool = Buffer.alloc(8 * 512);
let used = pool.length;

function randomHex(): string {
  if (used === pool.length) {
    randomFillSync(pool);
    used = 0;
  }
  pool[used] = ((pool[used] ?? 0) & 0x3f) | 0x80;
  used += 8;
  return pool.toString('hex', used - 8, used);
}

function format(time: string, count: number, low: string): string {
  return `${time}-7${hex(count, 3)}-${low.slice(0, 4)}-${low.slice(4)}`;
}

/** Returns the first 48 bits of an id. */
function timeText(ms: number): string {
  const digits = hex(ms, 12);
  return `${digits.slice(0, 8)}-${digits.slice(8)}`;
}

function hex(value: number, digits: number): string {
  return value.toString(16).padStart(digits, '0');
}

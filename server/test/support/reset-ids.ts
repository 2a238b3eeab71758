import { resetIds } from '../../src/lib/ids.ts';

// Runs before each test file. Files share a process, and some have a clock that is days ahead.
resetIds();

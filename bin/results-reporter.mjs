// A Vitest reporter that appends each result to the file TEST_RESULTS, as a line of JSON. A report that is
// written at the end is missing after an interrupted run.
import { appendFileSync } from 'node:fs';
import { stripVTControlCharacters } from 'node:util';

export default class ResultsReporter {
  onTestRunStart(files) {
    write({ files: files.length });
  }

  onTestCaseResult(test) {
    const { state, errors } = test.result();
    const flaky = test.diagnostic()?.flaky
      ? `${test.module.relativeModuleId} > ${test.fullName}: ${describe(errors[0])}`
      : undefined;
    write({ test: state, flaky });
  }

  onTestModuleEnd(file) {
    // A file that cannot be loaded, or whose hooks fail, has no failed test.
    const tests = [...file.children.allTests()];
    const isBroken = !file.ok() && tests.every((test) => test.result().state !== 'failed');
    write({ file: isBroken ? 'broken' : 'done' });
  }

  onTestRunEnd() {
    write({ ended: true });
  }
}

/** The first line of the message, and what differs between the expected and the received value. */
function describe({ message, diff = '' }) {
  const lines = stripVTControlCharacters(diff).split('\n');
  return [message.split('\n')[0], ...lines.filter((line) => /^[+-] /.test(line)).slice(0, 20)].join('\n    ');
}

function write(result) {
  appendFileSync(process.env.TEST_RESULTS, `${JSON.stringify(result)}\n`);
}

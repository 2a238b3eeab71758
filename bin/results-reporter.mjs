// A reporter of Vitest that writes each result at once, as a line of JSON in the file that TEST_RESULTS
// names. A report that is written at the end of a run is missing where the run is broken off.
import { appendFileSync } from 'node:fs';

export default class ResultsReporter {
  onTestRunStart(files) {
    write({ files: files.length });
  }

  onTestCaseResult(test) {
    write({ test: test.result().state });
  }

  onTestModuleEnd(file) {
    // A file that cannot be loaded, or whose hooks fail, has no test to fail.
    const tests = [...file.children.allTests()];
    const isBroken = !file.ok() && tests.every((test) => test.result().state !== 'failed');
    write({ file: isBroken ? 'broken' : 'done' });
  }

  onTestRunEnd() {
    write({ ended: true });
  }
}

function write(result) {
  appendFileSync(process.env.TEST_RESULTS, `${JSON.stringify(result)}\n`);
}

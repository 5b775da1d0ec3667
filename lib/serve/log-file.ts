import * as fs from 'node:fs'

const maxBytes = 20 * 1024 * 1024

/** A log file of the local stack. */
export interface LogFile {
  write(text: string): void
  close(): void
}

/**
 * Appends to a log file and never throws. On a full disk it drops lines, and calls `onProblem` once until writing works again. At
 * 20 MB, the file is renamed to `<file>.1`, which replaces the older one.
 */
export function openLog(file: string, onProblem: (sentence: string) => void, mostBytes = maxBytes): LogFile {
  let descriptor: number | undefined
  let bytes = 0
  let failing = false
  function open(): number {
    const opened = fs.openSync(file, 'a', 0o600)
    fs.fchmodSync(opened, 0o600)
    bytes = fs.fstatSync(opened).size
    return opened
  }
  function close(): void {
    if (descriptor !== undefined) fs.closeSync(descriptor)
    descriptor = undefined
  }
  return {
    write(text) {
      try {
        descriptor ??= open()
        if (bytes > 0 && bytes + text.length > mostBytes) {
          close()
          fs.renameSync(file, `${file}.1`)
          descriptor = open()
        }
        bytes += fs.writeSync(descriptor, text)
        failing = false
      } catch (error) {
        if (!failing) onProblem(`${file} cannot be written, so log lines are lost: ${String(error)}`)
        failing = true
      }
    },
    close,
  }
}

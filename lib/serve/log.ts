import { format } from 'node:util'

/** Prints every log line to stdout as JSON with its time. Lines that are already JSON stay unchanged. */
export function logAsJson(): void {
  process.stdout.on('error', () => {})
  for (const level of ['log', 'info', 'warn', 'error'] as const) {
    console[level] = (...values: unknown[]) => {
      const text = format(...values)
      const head = { time: new Date().toISOString(), level: level === 'log' ? 'info' : level }
      process.stdout.write(`${JSON.stringify({ ...head, ...(fieldsOf(text) ?? { message: text }) })}\n`)
    }
  }
}

function fieldsOf(text: string): object | undefined {
  if (!text.startsWith('{')) return undefined
  try {
    const fields: unknown = JSON.parse(text)
    return typeof fields === 'object' && fields !== null ? fields : undefined
  } catch {
    return undefined
  }
}

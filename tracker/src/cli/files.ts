import { createHash } from 'node:crypto'
import { chmodSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'

/** The result for a file. `kept` means that somebody had edited the file, so it wasn't changed. */
export type Written = 'created' | 'updated' | 'unchanged' | 'kept'

const checksum = (text: string) => createHash('sha256').update(text).digest('hex').slice(0, 16)
const marker = /^(?:<!-- |# )Written by svc init, checksum ([0-9a-f]{16})\.[^\n]*\n/

/**
 * Writes a file with its checksum in the first line, so that a later run knows whether somebody has changed it. A changed file is only
 * replaced if `replace` returns true.
 */
export async function writeGenerated(
  path: string,
  text: string,
  comment: 'markdown' | 'shell',
  replace: (path: string) => Promise<boolean>,
): Promise<Written> {
  const note = `Written by svc init, checksum ${checksum(text)}. A later run keeps a file that was changed by hand.`
  const whole = `${comment === 'markdown' ? `<!-- ${note} -->` : `# ${note}`}\n${text}`
  if (!existsSync(path)) {
    mkdirSync(dirname(path), { recursive: true })
    writeFileSync(path, whole)
    return 'created'
  }
  const present = readFileSync(path, 'utf8')
  if (present === whole) return 'unchanged'
  const [line = '', stated] = marker.exec(present) ?? []
  const changedByHand = stated !== checksum(present.slice(line.length))
  if (changedByHand && !(await replace(path))) return 'kept'
  writeFileSync(path, whole)
  return 'updated'
}

/**
 * Sets variables in a file of `NAME=value` lines that only its owner may read. Keeps all other lines. If a value is null, the variable
 * isn't changed, but a missing one is added with an empty value.
 */
export function writeEnv(path: string, values: Record<string, string | null>): Written {
  const present = existsSync(path) ? readFileSync(path, 'utf8') : undefined
  const lines = (present ?? '').split('\n')
  if (lines.at(-1) === '') lines.pop()
  for (const [name, value] of Object.entries(values)) {
    const at = lines.findIndex((line) => line.replace(/^\s*(?:export\s+)?/, '').startsWith(`${name}=`))
    if (at < 0) lines.push(`${name}=${value ?? ''}`)
    else if (value !== null) lines[at] = `${name}=${value}`
  }
  const text = `${lines.join('\n')}\n`
  if (text !== present) {
    mkdirSync(dirname(path), { recursive: true })
    writeFileSync(path, text, { mode: 0o600 })
  }
  chmodSync(path, 0o600)
  if (present === undefined) return 'created'
  return text === present ? 'unchanged' : 'updated'
}

/** Adds each line to a file that does not have it yet. */
export function addLines(path: string, lines: string[]): Written {
  const present = existsSync(path) ? readFileSync(path, 'utf8') : undefined
  const known = new Set(present?.split(/\r?\n/).map((line) => line.trim()))
  const missing = lines.filter((line) => !known.has(line))
  if (missing.length === 0) return 'unchanged'
  const separator = present && !present.endsWith('\n') ? '\n' : ''
  writeFileSync(path, `${present ?? ''}${separator}${missing.join('\n')}\n`)
  return present === undefined ? 'created' : 'updated'
}

/**
 * Writes a section between two markers into a file of the project. Replaces an existing section, or else appends it. Keeps the rest of the
 * file.
 */
export function writeSection(path: string, text: string): Written {
  const present = existsSync(path) ? readFileSync(path, 'utf8') : undefined
  const section = `${sectionStart}\n${text.trim()}\n${sectionEnd}`
  const at = present === undefined ? null : sectionPattern.exec(present)
  const whole =
    present === undefined
      ? `${section}\n`
      : at
        ? present.slice(0, at.index) + section + present.slice(at.index + at[0].length)
        : `${present.trimEnd()}${present.trim() ? '\n\n' : ''}${section}\n`
  if (whole === present) return 'unchanged'
  writeFileSync(path, whole)
  return present === undefined ? 'created' : 'updated'
}

const sectionStart = '<!-- svc:start. `svc init` rewrites the text from here to svc:end. -->'
const sectionEnd = '<!-- svc:end -->'
/**
 * Finds the first start marker that has an end marker before the next start marker. So the text between a stray marker and a later section
 * is kept.
 */
const sectionPattern = /<!-- svc:start\b(?:(?!<!-- svc:start\b)[^])*?<!-- svc:end -->/

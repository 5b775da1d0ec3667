import { hash } from 'node:crypto'
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'

export const root = fileURLToPath(new URL('../../', import.meta.url))
const packages = path.join(root, 'node_modules')
/** As deep as this file, so that `../../` of a file's own address is the root there, too. */
const folder = path.join(packages, '.svc')
/** What is built from; npm writes down in the last which packages are installed. */
const sources = ['functions', 'lib', 'tracker/src', 'tracker/dist', 'wrangler.toml', 'node_modules/.package-lock.json']
const keptMilliseconds = 24 * 3_600_000

interface Made {
  path: string
  contents: string | Uint8Array
}

/**
 * The file of this name that is made of the sources, with what else is made beside it: once for what they say, and then kept. Undefined
 * where that cannot be, as in a folder of another user or on a full disk: then the sources do.
 */
export async function keep(name: string, make: (file: string) => Promise<Made[]>): Promise<string | undefined> {
  try {
    const said = hashOfSources()
    const file = path.join(folder, `${said}-${name}`)
    // Where it leads elsewhere, `../../` would be another checkout.
    if (realpathSync(packages) !== packages) return undefined
    if (existsSync(file)) return file
    // A source may have changed while it was read.
    return (await write(file, make, () => hashOfSources() === said)) ? file : undefined
  } catch (error) {
    if (error instanceof Error && 'errno' in error) return undefined
    throw error
  }
}

function hashOfSources(): string {
  const files = sources.flatMap((source) => {
    const place = path.join(root, source)
    if (!existsSync(place)) return []
    if (!statSync(place).isDirectory()) return [place]
    return readdirSync(place, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => path.join(entry.parentPath, entry.name))
  })
  const lines = files.toSorted().map((file) => `${path.relative(root, file)}\n${hash('sha256', readFileSync(file))}`)
  return hash('sha256', lines.join('\n'))
}

/** The file itself comes last: whoever finds it finds all. */
async function write(
  file: string,
  make: (file: string) => Promise<Made[]>,
  isStillSaid: () => boolean,
): Promise<boolean> {
  mkdirSync(folder, { recursive: true })
  const partial = mkdtempSync(path.join(folder, 'partial-'))
  try {
    const made = await make(file)
    if (!isStillSaid()) return false
    for (const one of made.toSorted((a, b) => Number(a.path === file) - Number(b.path === file))) {
      const whole = path.join(partial, path.basename(one.path))
      writeFileSync(whole, one.contents, { flush: true })
      renameSync(whole, one.path)
    }
  } finally {
    rmSync(partial, { recursive: true })
  }
  removeOld()
  return true
}

/** Of sources that were: another process may be about to read one. */
function removeOld(): void {
  for (const name of readdirSync(folder)) {
    const file = path.join(folder, name)
    if (statSync(file).mtimeMs < Date.now() - keptMilliseconds) rmSync(file, { recursive: true, force: true })
  }
}

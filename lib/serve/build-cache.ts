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
/** The folder is as deep as this file's, so that `../../` is the root for built files too. */
const folder = path.join(packages, '.svc')
/** The inputs of a build. The last one is npm's list of installed packages. */
const sources = ['functions', 'lib', 'tracker/src', 'tracker/dist', 'wrangler.toml', 'node_modules/.package-lock.json']
const cachedMilliseconds = 24 * 3_600_000

interface Built {
  path: string
  contents: string | Uint8Array
}

/**
 * Returns the file that `build` creates from the sources. This file and the files next to it are built once for each state of the
 * sources. Returns undefined if the file cannot be stored, for example in another user's folder or on a full disk.
 */
export async function buildOnce(name: string, build: (file: string) => Promise<Built[]>): Promise<string | undefined> {
  try {
    const before = hashOfSources()
    const file = path.join(folder, `${before}-${name}`)
    // If node_modules is a link to another place, `../../` is another checkout.
    if (realpathSync(packages) !== packages) return undefined
    if (existsSync(file)) return file
    // A source may change while the build reads it.
    return (await write(file, build, () => hashOfSources() === before)) ? file : undefined
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

/** Writes the file itself last, so that a reader who finds it also finds the other files. */
async function write(
  file: string,
  build: (file: string) => Promise<Built[]>,
  isCurrent: () => boolean,
): Promise<boolean> {
  mkdirSync(folder, { recursive: true })
  const partial = mkdtempSync(path.join(folder, 'partial-'))
  try {
    const built = await build(file)
    if (!isCurrent()) return false
    for (const one of built.toSorted((a, b) => Number(a.path === file) - Number(b.path === file))) {
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

/** Removes files of older sources. Newer files stay, because another process may be about to read them. */
function removeOld(): void {
  for (const name of readdirSync(folder)) {
    const file = path.join(folder, name)
    if (statSync(file).mtimeMs < Date.now() - cachedMilliseconds) rmSync(file, { recursive: true, force: true })
  }
}

import { hash } from 'node:crypto'
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import path from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'

const root = fileURLToPath(new URL('../../', import.meta.url))
/** As deep as lib/serve, so that `../../` of a file's own address is the root here, too. */
const folder = path.join(root, 'node_modules/.svc')
/** What the service is made of; npm writes down there which packages are installed. */
const parts = ['functions', 'lib', 'tracker/src', 'tracker/dist', 'wrangler.toml', 'node_modules/.package-lock.json']
const keptMilliseconds = 24 * 3_600_000

/**
 * The service in one file, which starts in half the processor time of 1,400 files and takes two thirds of their memory. It is built once
 * for what the sources say. Undefined where that cannot be kept, as in a folder of another user or on a full disk.
 */
export async function builtService(): Promise<URL | undefined> {
  const name = `${hashOfSources()}.js`
  const file = path.join(folder, name)
  try {
    if (!existsSync(file)) await build(name)
  } catch (error) {
    if (error instanceof Error && 'errno' in error) return undefined
    throw error
  }
  return pathToFileURL(file)
}

function hashOfSources(): string {
  const files = parts.flatMap((part) => {
    const place = path.join(root, part)
    if (!existsSync(place)) return []
    if (!statSync(place).isDirectory()) return [place]
    return readdirSync(place, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => path.join(entry.parentPath, entry.name))
  })
  return hash(
    'sha256',
    files
      .toSorted()
      .map((file) => `${path.relative(root, file)}\n${hash('sha256', readFileSync(file))}`)
      .join('\n'),
  )
}

async function build(name: string): Promise<void> {
  mkdirSync(folder, { recursive: true })
  const partial = mkdtempSync(path.join(folder, 'partial-'))
  try {
    const [esbuild, { readFunctions }] = await Promise.all([import('esbuild'), import('../local/functions.ts')])
    const mains = readFunctions().map(({ main }) => main)
    const { outputFiles } = await esbuild.build({
      absWorkingDir: root,
      stdin: {
        resolveDir: root,
        contents: [
          `import { runService } from './lib/serve/service.ts'`,
          ...mains.map((main, at) => `import * as function${at} from './${main}'`),
          `const functions = { ${mains.map((main, at) => `'${main}': function${at}`).join(', ')} }`,
          `await runService(async (main) => functions[main])`,
        ].join('\n'),
      },
      outfile: path.join(folder, name),
      write: false,
      bundle: true,
      format: 'esm',
      target: 'node24',
      platform: 'node',
      jsx: 'automatic',
      jsxImportSource: 'hono/jsx',
      // Packages that are written for `require` have one.
      banner: {
        js: `import { createRequire as requireOf } from 'node:module'; const require = requireOf(import.meta.url);`,
      },
      minifyWhitespace: true,
      sourcemap: true,
      sourcesContent: false,
      logLevel: 'silent',
    })
    // The map is there before what names it.
    for (const { path: made, contents } of outputFiles.toSorted((a, b) => b.path.length - a.path.length)) {
      const whole = path.join(partial, path.basename(made))
      writeFileSync(whole, contents, { flush: true })
      renameSync(whole, made)
    }
  } finally {
    rmSync(partial, { recursive: true })
  }
  removeOld()
}

/** Of sources that were: another process may be about to read one. */
function removeOld(): void {
  for (const name of readdirSync(folder)) {
    const file = path.join(folder, name)
    if (statSync(file).mtimeMs < Date.now() - keptMilliseconds) rmSync(file, { recursive: true, force: true })
  }
}

if (import.meta.main) await builtService()

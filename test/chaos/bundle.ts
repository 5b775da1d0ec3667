import { randomUUID } from 'node:crypto'
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { build, type Plugin } from 'esbuild'
import type * as service from './service.ts'

export type Service = typeof service

/** Exports that replace a module's own by name. Each receives the original. */
export interface ModuleMistakes {
  module: string
  exports: Record<string, ((real: never) => unknown) | undefined>
}

/** Describes mistakes in a module of the service: `inModule<typeof import('../lib/mail.ts')>('lib/mail.ts', { sendMail: (real) => … })`. */
export const inModule = <Module extends object>(
  module: string,
  exports: { [Name in keyof Module]?: (real: Module[Name]) => Module[Name] },
): ModuleMistakes => ({ module, exports })

const root = fileURLToPath(new URL('../../', import.meta.url))

/** Redirects all imports of a module to another module with the exports of `mistakes`. */
function plant(mistakes: ModuleMistakes[], madeBy: string): Plugin {
  const planted = new Map(mistakes.map(({ module, exports }) => [path.join(root, module), Object.keys(exports)]))
  return {
    name: 'planted mistakes',
    setup(bundle) {
      bundle.onResolve({ filter: /\.ts$/ }, ({ path: name, resolveDir, namespace }) => {
        const file = path.resolve(resolveDir, name)
        return planted.has(file) && namespace !== 'planted' ? { path: file, namespace: 'planted' } : undefined
      })
      bundle.onLoad({ filter: /./, namespace: 'planted' }, ({ path: file }) => ({
        resolveDir: path.dirname(file),
        contents: [
          `import * as real from ${JSON.stringify(file)}`,
          `export * from ${JSON.stringify(file)}`,
          ...(planted.get(file) ?? []).map(
            (name) => `export const ${name} = globalThis.${madeBy}.${name}(real.${name})`,
          ),
        ].join('\n'),
      }))
    },
  }
}

/** Shortens the waits of the client library, so that a run of thousands of calls spends its time on calls. */
const quickClient: Plugin = {
  name: 'quick client',
  setup(bundle) {
    bundle.onLoad({ filter: /[/]tracker[/]src[/]send\.ts$/ }, ({ path: file }) => ({
      contents: `const setTimeout = (run, ms) => globalThis.setTimeout(run, ms / 20)\n${readFileSync(file, 'utf8')}`,
      loader: 'ts',
    }))
  },
}

/** Builds and loads the service with `mistakes`. Its log goes to `globalThis.svcLog`. */
export const loadService = (mistakes: ModuleMistakes[] = []) => loadModule<Service>('test/chaos/service.ts', mistakes)

/** Builds and loads a module of the service with its imports. */
export async function loadModule<Module>(entryPoint: string, mistakes: ModuleMistakes[] = []): Promise<Module> {
  const id = randomUUID()
  const madeBy = `planted_${id.replaceAll('-', '')}`
  Object.assign(globalThis, { [madeBy]: Object.assign({}, ...mistakes.map(({ exports }) => exports)) })
  const { outputFiles } = await build({
    absWorkingDir: root,
    entryPoints: [entryPoint],
    jsx: 'automatic',
    jsxImportSource: 'hono/jsx',
    write: false,
    bundle: true,
    format: 'esm',
    platform: 'node',
    target: 'es2024',
    packages: 'external',
    keepNames: true,
    define: {
      'console.log': 'globalThis.svcLog',
      'console.error': 'globalThis.svcLog',
      SVC_BASE_URL: '"http://svc.test"',
    },
    logLevel: 'silent',
    plugins: [plant(mistakes, madeBy), quickClient],
  })
  const folder = path.join(root, 'node_modules/.cache/chaos')
  mkdirSync(folder, { recursive: true })
  const file = path.join(folder, `${id}.mjs`)
  writeFileSync(file, outputFiles[0]?.text ?? '')
  try {
    return (await import(/* @vite-ignore */ pathToFileURL(file).href)) as Module
  } finally {
    rmSync(file)
  }
}

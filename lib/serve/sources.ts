import { transformSync } from 'esbuild'
import { readFileSync } from 'node:fs'
import { registerHooks } from 'node:module'
import { fileURLToPath } from 'node:url'
import type { FunctionModule } from './functions.ts'

/** Node strips types, but it can't compile JSX. */
registerHooks({
  load(url, context, next) {
    if (!url.endsWith('.tsx')) return next(url, context)
    const file = fileURLToPath(url)
    const { code } = transformSync(readFileSync(file, 'utf8'), {
      loader: 'tsx',
      format: 'esm',
      target: 'node24',
      jsx: 'automatic',
      jsxImportSource: 'hono/jsx',
      sourcefile: file,
      sourcemap: 'inline',
    })
    return { format: 'module', source: code, shortCircuit: true }
  },
})

/** Loads a function from its source file. */
export const readSource = async (main: string): Promise<FunctionModule> =>
  await import(new URL(`../../${main}`, import.meta.url).href)

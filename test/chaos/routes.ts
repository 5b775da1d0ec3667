import { randomUUID } from 'node:crypto'
import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { build } from 'esbuild'
import { readFunctions } from '../../lib/commands/wrangler-file.ts'

interface App {
  routes?: { method: string; path: string }[]
}

const root = fileURLToPath(new URL('../../', import.meta.url))

/**
 * Every route of every function with an address: `POST /programs/:programId/partners`. The code is bundled first, because Node can't read
 * TSX.
 */
export async function readRoutes(): Promise<string[]> {
  const functions = readFunctions().filter(({ paths }) => paths.length > 0)
  const folder = path.join(root, 'node_modules/.cache/chaos', randomUUID())
  const { outputFiles } = await build({
    absWorkingDir: root,
    entryPoints: functions.map(({ name, main }) => ({ in: main, out: name })),
    outdir: folder,
    write: false,
    bundle: true,
    // Functions share most of their code, so it is built and read once.
    splitting: true,
    format: 'esm',
    platform: 'node',
    target: 'es2024',
    packages: 'external',
    outExtension: { '.js': '.mjs' },
    external: ['cloudflare:*'],
    logLevel: 'silent',
  })
  mkdirSync(folder, { recursive: true })
  try {
    for (const file of outputFiles) writeFileSync(file.path, file.text)
    const registered = await Promise.all(
      functions.map(async ({ name, main, paths }) => {
        const file = pathToFileURL(path.join(folder, `${name}.mjs`)).href
        const { default: app } = (await import(/* @vite-ignore */ file)) as { default: App }
        if (!app.routes) return paths.map((own) => `GET ${own.replace(/\*$/, '')}`)
        // The root of a function's own address serves its path. Only the dashboard has a page there.
        return app.routes
          .filter((route) => route.method !== 'ALL' && (route.path !== '/' || main.includes('dashboard')))
          .map((route) => `${route.method} ${route.path}`)
      }),
    )
    return [...new Set(registered.flat())].toSorted()
  } finally {
    rmSync(folder, { recursive: true })
  }
}

import { randomUUID } from 'node:crypto'
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { build } from 'esbuild'
import type * as service from './service.ts'

export type Service = typeof service

/** A change of one file's text, made while the bundle is built. */
export interface Plant {
  file: string
  from: string
  to: string
}

const root = fileURLToPath(new URL('../../', import.meta.url))

/** Waits of the client library, shortened so that a run of thousands of calls spends its time on calls. */
const quickClient: Plant = {
  file: 'tracker/src/send.ts',
  from: 'setTimeout(resolve, waitMs)',
  to: 'setTimeout(resolve, waitMs / 20)',
}

/** Builds the service with `plants` in it and loads it. What it logs goes to `globalThis.svcLog`. */
export async function loadService(plants: Plant[] = []): Promise<Service> {
  const changes = [quickClient, ...plants]
  const changed = new Set<Plant>()
  const { outputFiles } = await build({
    absWorkingDir: root,
    entryPoints: ['test/chaos/service.ts'],
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
    plugins: [
      {
        name: 'plants',
        setup(pluginBuild) {
          pluginBuild.onLoad({ filter: /\.ts$/ }, ({ path: file }) => {
            let contents = readFileSync(file, 'utf8')
            for (const plant of changes.filter((change) => path.join(root, change.file) === file)) {
              if (contents.split(plant.from).length !== 2) {
                throw new Error(`${plant.file} must hold this once, so that it can be replaced: ${plant.from}`)
              }
              contents = contents.replace(plant.from, () => plant.to)
              changed.add(plant)
            }
            return { contents, loader: 'ts' }
          })
        },
      },
    ],
  })
  if (changed.size < changes.length) throw new Error('A file to be changed is not part of the bundle.')
  const folder = path.join(root, 'node_modules/.cache/chaos')
  mkdirSync(folder, { recursive: true })
  const file = path.join(folder, `${randomUUID()}.mjs`)
  writeFileSync(file, outputFiles[0]?.text ?? '')
  try {
    return (await import(/* @vite-ignore */ pathToFileURL(file).href)) as Service
  } finally {
    rmSync(file)
  }
}

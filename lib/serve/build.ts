import { buildOnce, root } from './build-cache.ts'

/**
 * Returns the service as one file. Compared with 1,400 files, this needs half the CPU time to start and two thirds of the memory.
 * Returns undefined if the file cannot be stored.
 */
export async function builtService(): Promise<string | undefined> {
  return await buildOnce('service.js', async (file) => {
    const [{ build }, { readFunctions }] = await Promise.all([
      import('esbuild'),
      import('../commands/wrangler-file.ts'),
    ])
    const mains = readFunctions().map(({ main }) => main)
    const { outputFiles } = await build({
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
      outfile: file,
      write: false,
      bundle: true,
      format: 'esm',
      target: 'node24',
      platform: 'node',
      jsx: 'automatic',
      jsxImportSource: 'hono/jsx',
      // Some bundled packages call `require`.
      banner: {
        js: `import { createRequire as requireOf } from 'node:module'; const require = requireOf(import.meta.url);`,
      },
      minifyWhitespace: true,
      // Zod declares that its modules have no side effects. Without this option, other packages would use them before they are initialized.
      ignoreAnnotations: true,
      sourcemap: true,
      sourcesContent: false,
      // These packages are only loaded for OpenTelemetry.
      external: ['core', 'resources', 'sdk-*', 'exporter-*'].map((name) => `@opentelemetry/${name}`),
      logLevel: 'silent',
    })
    return outputFiles
  })
}

if (import.meta.main) await builtService()

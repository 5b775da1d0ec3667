/**
 * Builds the package into `dist/`, prints the sizes and fails above the limits. Also writes `dist/served/`: the scripts, the package itself
 * and the documentation, as modules for the functions that serve them.
 */
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { brotliCompressSync, constants, gzipSync } from 'node:zlib'
import { build } from 'esbuild'
import { readStub, renderDocs } from './build-docs.ts'
import { fileName, type Files, fillIn, pack, placeholders } from './pack.ts'
import { readReleased, versionOf } from './released.ts'

const here = dirname(fileURLToPath(import.meta.url))
const dist = join(here, 'dist')

const common = {
  absWorkingDir: here,
  bundle: true,
  write: false,
  minify: true,
  format: 'esm',
  target: 'es2022',
  define: { SVC_BASE_URL: JSON.stringify(placeholders.baseUrl), SVC_VERSION: JSON.stringify(placeholders.version) },
  tsconfigRaw: { compilerOptions: { jsx: 'react-jsx' } },
} as const

/** Bundles one entry point and writes it to `dist/<file>`. Returns its text and its input files. */
async function bundle(file: string, options: Parameters<typeof build>[0]) {
  const result = await build({ ...common, ...options, metafile: true, outfile: join(dist, file) })
  const text = result.outputFiles?.[0]?.text ?? ''
  writeFileSync(join(dist, file), text, file === 'svc.js' ? { mode: 0o755 } : {})
  return { text, inputs: Object.keys(result.metafile?.inputs ?? {}) }
}

rmSync(dist, { recursive: true, force: true })
mkdirSync(dist)

// The script is a single block without exports, so it doesn't need a function around it.
const browser = (revokes: boolean) => ({
  entryPoints: ['src/browser.ts'],
  target: 'es2021',
  define: { SVC_REVOKES: String(revokes) },
})
const script = await bundle('svc-tracker.js', browser(false))
const consent = await bundle('svc-tracker-consent.js', browser(true))
const paymentLinks = await bundle('svc-payment-links.js', {
  entryPoints: ['src/payment-links.ts'],
  format: 'iife',
  target: 'es2021',
})
const server = await bundle('server.js', { entryPoints: ['src/server.ts'] })
const api = await bundle('api.js', { entryPoints: ['src/api.ts'] })
const stripe = await bundle('stripe.js', { entryPoints: ['src/stripe.ts'] })
const webhooks = await bundle('webhooks.js', { entryPoints: ['src/webhooks.ts'] })
const proxy = await bundle('proxy.js', { entryPoints: ['src/proxy.ts'] })
const react = await bundle('react.js', { entryPoints: ['src/react.tsx'], external: ['react', 'react/jsx-runtime'] })
const embed = await bundle('embed.js', { entryPoints: ['src/embed.ts'] })
// The copy that the service serves reads the address from its own URL.
const servedEmbed = await build({
  ...common,
  entryPoints: ['src/embed.ts'],
  define: { SVC_BASE_URL: 'import.meta.url' },
})
const embedReact = await bundle('embed-react.js', {
  entryPoints: ['src/embed-react.tsx'],
  external: ['react', 'react/jsx-runtime'],
})
const command = await bundle('svc.js', {
  entryPoints: ['src/cli/svc.ts'],
  platform: 'node',
  minify: false,
  banner: { js: '#!/usr/bin/env node' },
})

writeLicenses(command.inputs)

const tsc = fileURLToPath(new URL('bin/tsc', import.meta.resolve('typescript/package.json')))
const options =
  '--ignoreConfig --declaration --emitDeclarationOnly --strict --skipLibCheck --isolatedModules --allowImportingTsExtensions ' +
  '--target es2022 --module esnext --moduleResolution bundler --lib es2022,dom --jsx react-jsx --rootDir src --outDir dist'
execFileSync(
  process.execPath,
  [
    tsc,
    ...options.split(' '),
    'src/server.ts',
    'src/api.ts',
    'src/stripe.ts',
    'src/webhooks.ts',
    'src/proxy.ts',
    'src/react.tsx',
    'src/embed.ts',
    'src/embed-react.tsx',
  ],
  {
    cwd: here,
    stdio: 'inherit',
  },
)

/** Writes the licenses of the libraries that are bundled into the command, so that the package doesn't need dependencies. */
function writeLicenses(inputs: string[]) {
  const folders = new Set(inputs.flatMap((input) => input.match(/^.*node_modules\/(?:@[^/]+\/)?[^/]+/)?.[0] ?? []))
  const texts = [...folders].map((folder) => {
    const library = JSON.parse(readFileSync(join(here, folder, 'package.json'), 'utf8'))
    const file = readdirSync(join(here, folder)).find((name) => /^licen[cs]e/i.test(name))
    const terms = file ? readFileSync(join(here, folder, file), 'utf8').trim() : `License: ${library.license}`
    return `${library.name} ${library.version}\n\n${terms}\n`
  })
  writeFileSync(join(dist, 'svc.js.LICENSES.txt'), texts.join('\n---\n\n'))
}

/** Writes a module into `dist/served/` for the functions of the service. The package does not contain it. */
function serve(name: string, exports: Record<string, unknown>, type = 'string'): void {
  const entries = Object.entries(exports)
  const text = entries.map(([key, value]) => `export const ${key} = ${JSON.stringify(value)}\n`).join('')
  const types = entries.map(([key]) => `export declare const ${key}: ${type}\n`).join('')
  writeFileSync(join(dist, 'served', `${name}.js`), text)
  writeFileSync(join(dist, 'served', `${name}.d.ts`), types)
}

/** A window of 64 KB has a shorter header than the default window. */
const brotli = (text: string) => brotliCompressSync(text, { params: { [constants.BROTLI_PARAM_LGWIN]: 16 } })

const hash = (content: string | Buffer) => createHash('sha256').update(content).digest('base64url').slice(0, 22)

mkdirSync(join(dist, 'served'))
/** Writes a script, plain and compressed. The entity tag is weak, because it is the same in every encoding. */
const served = (text: string) => ({
  script: text,
  brotliBase64: brotli(text).toString('base64'),
  etag: `W/"${hash(text)}"`,
})
serve('script', { stub: readStub(), ...served(script.text) })
serve('consent', served(consent.text))
serve('payment-links', served(paymentLinks.text))
serve('embed', served(servedEmbed.outputFiles[0]?.text ?? ''))
const manifest = JSON.parse(readFileSync(join(here, 'package.json'), 'utf8'))
const template = readPackage()
writeFileSync(join(dist, 'served', 'template.tgz'), pack(template))
const released = readReleased(new URL('packages/', import.meta.url))
const version = versionOf(template, manifest.version, released)
for (const [path, text] of Object.entries(template))
  if (path.startsWith('dist/')) writeFileSync(join(here, path), fillIn(text, { baseUrl: '', version }))
const packages = Object.entries({ ...released, [version]: pack(template) })
serve(
  'packages',
  { packages: Object.fromEntries(packages.map(([name, tarball]) => [name, tarball.toString('base64')])) },
  'Record<string, string>',
)
serve('package', { version, packageFile: fileName(version) })

/** Reads the files that npm would pack, with placeholders. */
function readPackage(): Files {
  const listed = execFileSync('npm', ['pack', '--dry-run', '--json', '--ignore-scripts'], {
    cwd: here,
    stdio: ['ignore', 'pipe', 'ignore'],
  })
  const [packed] = Object.values<{ files: { path: string }[] }>(JSON.parse(listed.toString()))
  if (!packed) throw new Error('npm pack listed no package.')
  const files = Object.fromEntries(packed.files.map(({ path }) => [path, readFileSync(join(here, path), 'utf8')]))
  const versionLine = `"version": "${manifest.version}"`
  files['package.json'] = files['package.json']?.replace(versionLine, `"version": "${placeholders.version}"`) ?? ''
  return files
}

// The dashboard and the documentation serve their font from their own host.
const font = fileURLToPath(import.meta.resolve('@fontsource-variable/inter/files/inter-latin-wght-normal.woff2'))
serve('font', { fontBase64: readFileSync(font, 'base64') })
// The font of PDF documents.
const documentFont = fileURLToPath(import.meta.resolve('dejavu-fonts-ttf/ttf/DejaVuSans.ttf'))
serve('document-font', { fontBase64: readFileSync(documentFont, 'base64') })

const page = `{ name: string; group: string; title: string; summary: string; html: string; markdown: string; sections: { id: string; title: string; text: string }[] }`
serve('docs', { pages: renderDocs() }, `${page}[]`)

const sizes = [
  { file: 'svc-tracker.js', encoding: 'brotli', bytes: brotli(script.text).length, limit: 1024 },
  { file: 'svc-tracker-consent.js', encoding: 'brotli', bytes: brotli(consent.text).length, limit: 1152 },
  {
    file: 'svc-payment-links.js',
    encoding: 'brotli',
    bytes: brotli(paymentLinks.text).length,
    limit: 1024,
  },
  { file: 'server.js', encoding: 'gzip', bytes: gzipSync(server.text, { level: 9 }).length, limit: 2048 },
  { file: 'api.js', encoding: 'gzip', bytes: gzipSync(api.text, { level: 9 }).length, limit: 2560 },
  { file: 'stripe.js', encoding: 'gzip', bytes: gzipSync(stripe.text, { level: 9 }).length, limit: 2048 },
  { file: 'webhooks.js', encoding: 'gzip', bytes: gzipSync(webhooks.text, { level: 9 }).length, limit: 1024 },
  { file: 'proxy.js', encoding: 'gzip', bytes: gzipSync(proxy.text, { level: 9 }).length, limit: 2048 },
  { file: 'react.js', encoding: 'gzip', bytes: gzipSync(react.text, { level: 9 }).length, limit: 1024 },
  { file: 'embed.js', encoding: 'gzip', bytes: gzipSync(embed.text, { level: 9 }).length, limit: 3072 },
  { file: 'embed-react.js', encoding: 'gzip', bytes: gzipSync(embedReact.text, { level: 9 }).length, limit: 3072 },
]
for (const { file, encoding, bytes, limit } of sizes) {
  console.log(`${file.padEnd(23)} ${String(bytes).padStart(5)} bytes ${encoding} (limit ${limit})`)
  if (bytes > limit) process.exitCode = 1
}
if (process.exitCode) console.error('Too large: remove something, or change the size that the README promises.')

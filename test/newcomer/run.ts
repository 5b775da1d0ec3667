/**
 * `npm run newcomer`: plays an integrator from an empty folder to the first tracked sale, with the newest Express and Next.js from the npm
 * registry, and with Flask if Python has it. With Node, it runs the command from the dashboard and the code in the instructions. With
 * Flask, it runs the code that the documentation shows this person. A visitor in Chromium signs up, and a call from the documentation
 * records the sale. Then it runs the documentation's calls in every language that is installed on this machine. Prints each step with its
 * time. Exits with 1 if a step fails or if one framework takes over two minutes.
 */
import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { appendFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import type { Browser, Page } from 'playwright-core'
import { readOptions } from '../../lib/commands/command.ts'
import { freePort } from '../../lib/serve/embedded-postgres.ts'
import { launchChromium } from '../support/chromium.ts'
import { runLanguages } from './languages.ts'

readOptions(
  'npm run newcomer    goes from an empty folder to the first tracked sale, with Express, Next.js and Flask, and runs each documented call',
  {},
)

const run = promisify(execFile)
const longestSeconds = 120
const temporary = mkdtempSync(path.join(tmpdir(), 'newcomer-'))
const children: ChildProcess[] = []

/** Starts a process in its own group, so that its children end with it. Shows its output if the step fails. */
function start(command: string, cwd: string, environment: NodeJS.ProcessEnv) {
  const child = spawn('bash', ['-c', command], { cwd, env: { ...process.env, ...environment }, detached: true })
  children.push(child)
  const started = { child, output: '' }
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk) => (started.output += String(chunk)))
  return started
}

async function stop(child: ChildProcess): Promise<void> {
  if (!child.pid || child.exitCode !== null || child.signalCode !== null) return
  const exited = once(child, 'exit')
  process.kill(-child.pid, 'SIGINT')
  await exited
}

async function until(holds: () => boolean | Promise<boolean>, what: string, output: () => string): Promise<void> {
  for (const end = Date.now() + 180_000; !(await holds()); await new Promise((resolve) => setTimeout(resolve, 100)))
    if (Date.now() > end) throw new Error(`${what}\n${output()}`)
}

const answers = (url: string) =>
  fetch(url).then(
    ({ status }) => status < 500,
    () => false,
  )

interface Way {
  name: string
  /** The packages in the framework's own instructions. */
  install: string
  serve: string
  signup: string
  /** For Node: the files of the instructions that the integrator pastes, the files that a project already has, and the settings. */
  node?: { files: RegExp; own: Record<string, string>; settings: (folder: string) => void }
}

/** Returns a page and a Flask server with the code that the documentation shows this person. */
async function flaskFiles(docs: Page): Promise<Record<string, string>> {
  const code = async (selector: string) => (await docs.locator(selector).first().locator('code').textContent()) ?? ''
  await docs.getByRole('link', { name: 'HTML and any server' }).first().click()
  await docs.getByText('The examples are filled in for').waitFor()
  const [tag = ''] = /<script async[^>]+>/.exec(await code('figure:has-text("/js/svc-tracker.js")')) ?? []
  const page = await code('figure:has-text("public/signup.html")')
  await docs.getByRole('link', { name: 'The four calls' }).first().click()
  const lead = (await code('figure[data-tab="Python"]:has-text("track/lead")'))
    .replace('"user-1"', 'user_id')
    .replace('"CLICK_ID"', 'request.cookies.get("svc_click_id")')
  return {
    'public/signup.html': page.replace(/<script async[^>]+>/, tag),
    'app.py': `import os, uuid
from flask import Flask, request

app = Flask(__name__, static_folder="public")

@app.get("/")
def show_page():
    return app.send_static_file("signup.html")

@app.post("/api/signup")
def sign_up():
    user_id = str(uuid.uuid4())
    track_lead(user_id)
    return {"id": user_id}

def track_lead(user_id):
${lead.replaceAll(/^/gm, '    ')}

app.run(port=int(os.environ["PORT"]))
`,
  }
}

function writeFiles(folder: string, files: Iterable<readonly [string, string]>): void {
  for (const [file, content] of files) {
    mkdirSync(path.dirname(path.join(folder, file)), { recursive: true })
    writeFileSync(path.join(folder, file), content)
  }
}

const ways: Way[] = [
  {
    name: 'HTML and Express',
    install: 'npm install express',
    serve: 'node --env-file=.svc/.env server.js',
    signup: '/',
    node: { files: /^server\.js$|^public\//, own: {}, settings: () => {} },
  },
  {
    name: 'Next.js',
    install: 'npm install next react react-dom && npm install -D typescript @types/node @types/react',
    serve: 'npx next build && npx next start -p $PORT',
    signup: '/signup',
    node: {
      files: /^app\//,
      own: { 'app/page.tsx': 'export default function Page() {\n  return <h1>Shop</h1>\n}\n' },
      settings: (folder) => {
        const lines = readFileSync(path.join(folder, '.svc/.env'), 'utf8').split('\n')
        appendFileSync(
          path.join(folder, '.env.local'),
          lines.filter((line) => /^SVC_(API|PROXY)_KEY=/.test(line)).join('\n'),
        )
      },
    },
  },
  { name: 'Flask', install: "python3 -c 'import flask'", serve: 'python3 app.py', signup: '/' },
]

async function newcomer(way: Way, baseUrl: string, account: { email: string; password: string }): Promise<void> {
  console.log(`\n${way.name}`)
  const folder = path.join(temporary, way.name.replaceAll(/\W+/g, '-'))
  mkdirSync(folder)
  const port = String(await freePort())
  const site = `http://localhost:${port}`
  /** A link to the site on which the developer works. */
  const here = (link: string) => link.replace(/^https:\/\/[^/]+/, site)
  let seconds = 0
  const step = async <Result>(name: string, does: () => Promise<Result>): Promise<Result> => {
    const begun = performance.now()
    const result = await does()
    const took = (performance.now() - begun) / 1000
    seconds += took
    console.log(`  ${took.toFixed(1).padStart(6)} s  ${name}`)
    return result
  }
  const shell = (command: string, environment: NodeJS.ProcessEnv = {}) =>
    run('bash', ['-euc', command], { cwd: folder, env: { ...process.env, ...environment } })

  const browser: Browser = await launchChromium()
  try {
    const advertiser = await (await browser.newContext()).newPage()
    await advertiser.goto(`${baseUrl}/sign-in`)
    await advertiser.getByLabel('E-mail').fill(account.email)
    await advertiser.getByLabel('Password').fill(account.password)
    await advertiser.getByRole('button', { name: 'Sign in' }).click()
    await advertiser.waitForURL((url) => url.pathname !== '/sign-in')
    await advertiser.goto(`${baseUrl}/programs/new`)
    await advertiser.getByLabel('Program name').fill(way.name)
    await advertiser.getByLabel('Domain of your site').fill('shop.example.com')
    await advertiser.getByRole('button', { name: 'Create program' }).click()
    for (let skipped = 0; skipped < 3; skipped++)
      await advertiser.getByRole('link', { name: 'Skip', exact: true }).click()
    await advertiser.getByRole('button', { name: 'Show the command with a new key' }).click()
    const shown = async (label: string) =>
      (await advertiser.getByLabel(label, { exact: true }).textContent())?.trim() ?? ''
    const command = await shown('set-up command')
    const apiKey = await shown('API key')
    const testLink = await shown('test link')

    await step(way.install, () => shell(way.install))
    const { node } = way
    if (node) {
      await step(command.replace(apiKey, 'svc_live_…'), () => shell(command))
      await step('paste the steps of .svc/AGENTS.md', async () => {
        const instructions = readFileSync(path.join(folder, '.svc/AGENTS.md'), 'utf8')
        const blocks = [...instructions.matchAll(/^```\w+ file=(.+)\n([^]*?)^```$/gm)].map(
          ([, file = '', code = '']) => [file, code] as const,
        )
        writeFiles(folder, [...Object.entries(node.own), ...blocks.filter(([name]) => node.files.test(name))])
        node.settings(folder)
      })
    } else {
      await step('paste the code of the documentation', async () => {
        const docs = await advertiser.context().newPage()
        await docs.goto(`${baseUrl}/docs`)
        writeFiles(folder, Object.entries(await flaskFiles(docs)))
        await docs.close()
      })
    }
    const server = await step(way.serve, async () => {
      const started = start(way.serve, folder, { PORT: port, ...(!node && { SVC_API_KEY: apiKey }) })
      await until(
        () => answers(site),
        "The server doesn't answer.",
        () => started.output,
      )
      return started
    })

    const comeBy = async (link: string) => {
      const context = await browser.newContext()
      const page = await context.newPage()
      const landed = await page.goto(link)
      if (landed?.status() !== 200) throw new Error(`${link} is answered ${landed?.status()}\n${server.output}`)
      await page.waitForFunction(() => window.svc?.getClickId(), undefined, { timeout: 60_000 })
      if (way.signup !== '/') await page.goto(site + way.signup)
      await page.waitForFunction(() => window.svc?.getClickId(), undefined, { timeout: 60_000 })
      await page.getByLabel('E-mail').fill('visitor@example.com')
      const [response] = await Promise.all([
        page.waitForResponse((answer) => answer.url().endsWith('/api/signup'), { timeout: 60_000 }),
        page.getByRole('button', { name: 'Sign up' }).click(),
      ])
      const { id }: { id: string } = await response.json()
      await page.getByText('Welcome!').waitFor()
      await context.close()
      return id
    }
    const documentation = await (await fetch(`${baseUrl}/docs/html.md`)).text()
    const sale = /^## 3\. The sale$[^]*?^```sh run\n([^]*?)^```$/m.exec(documentation)?.[1] ?? ''
    const buy = async (customer: string, order: string) => {
      const call = sale.replace('"user-1"', JSON.stringify(customer)).replace('"order-1"', JSON.stringify(order))
      const { stdout } = await shell(call, { SVC_API_KEY: apiKey })
      return JSON.parse(stdout)
    }

    await step(`a visitor by the test link ${testLink} signs up and pays`, async () => {
      await buy(await comeBy(here(testLink)), 'test-1')
      await advertiser.getByText('Your server sends its sales.').waitFor({ timeout: 60_000 })
    })

    await advertiser.goto(`${baseUrl}/programs/${/svc-test-(\d+)$/.exec(testLink)?.[1]}/partners`)
    await advertiser.getByLabel('Name').fill('Grace')
    await advertiser.getByLabel('E-mail').fill('grace@example.com')
    await advertiser.getByRole('button', { name: 'Add partner' }).click()
    // The button is in the closed menu of the partner's row.
    const copy = advertiser.locator('button[data-copy*="aff="]').first()
    const link = (await copy.getAttribute('data-copy')) ?? ''
    await step(`a visitor by ${link} signs up and pays`, async () => {
      const answer = await buy(await comeBy(here(link)), 'order-1')
      if (!answer.attributed || !answer.commission_id) throw new Error(JSON.stringify(answer))
    })
    console.log(`  ${seconds.toFixed(1).padStart(6)} s  in total`)
    if (seconds > longestSeconds) throw new Error(`That is more than ${longestSeconds} seconds.`)
  } finally {
    await browser.close()
  }
}

try {
  const port = String(await freePort())
  const service = path.join(import.meta.dirname, '../..')
  const settings = { LOCAL_DATA_FOLDER: path.join(temporary, 'data'), PORT: port, NO_COLOR: '1' }
  const stack = start(`"${process.execPath}" lib/local/start.ts`, service, settings)
  await until(
    () => stack.output.includes('Ctrl-C'),
    'The service does not start.',
    () => stack.output,
  )
  const [, email = '', password = ''] = /dashboard +\S+ +as (\S+), password (\S+)/.exec(stack.output) ?? []
  const hasFlask = await run('python3', ['-c', 'import flask']).then(
    () => true,
    () => false,
  )
  if (!hasFlask) console.log('Python has no Flask here, so that way is not run.')
  for (const way of ways) if (way.node || hasFlask) await newcomer(way, `http://127.0.0.1:${port}`, { email, password })

  console.log('\nThe calls of the documentation')
  const { stdout } = await run(process.execPath, ['lib/local/sandbox.ts'], {
    cwd: service,
    env: { ...process.env, ...settings },
  })
  await runLanguages(JSON.parse(stdout), temporary)
} catch (error) {
  console.error(error)
  process.exitCode = 1
} finally {
  for (const child of children.toReversed()) await stop(child)
  rmSync(temporary, { recursive: true, force: true })
}

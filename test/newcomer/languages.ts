import { execFile } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { promisify } from 'node:util'

const run = promisify(execFile)

interface Language {
  file: string
  version: [command: string, argument: string]
  command: [command: string, ...args: string[]]
  /** Turns code from the documentation into a complete program. */
  program: (code: string) => string
}

const imports = ['bytes', 'encoding/json', 'io', 'log', 'net/http', 'os']

const languages: Record<string, Language> = {
  curl: { file: 'call.sh', version: ['curl', '--version'], command: ['bash', '-eu'], program: (code) => code },
  Python: { file: 'call.py', version: ['python3', '--version'], command: ['python3'], program: (code) => code },
  PHP: { file: 'call.php', version: ['php', '--version'], command: ['php'], program: (code) => `<?php\n${code}\n` },
  Ruby: { file: 'call.rb', version: ['ruby', '--version'], command: ['ruby'], program: (code) => code },
  Go: {
    file: 'call.go',
    version: ['go', 'version'],
    command: ['go', 'run'],
    program: (code) => `package main

import (
${imports
  .filter((name) => new RegExp(`\\b${path.basename(name)}\\.`).test(code))
  .map((name) => `\t"${name}"`)
  .join('\n')}
)

func call() error {
${code}
\treturn nil
}

func main() {
\tif err := call(); err != nil {
\t\tpanic(err)
\t}
}
`,
  },
}

interface Program {
  baseUrl: string
  apiKey: string
  partnerCode: string
}

async function post(program: Program, call: string, body: object): Promise<Record<string, unknown>> {
  const response = await fetch(`${program.baseUrl}/api/v1/track/${call}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${program.apiKey}` },
    body: JSON.stringify(body),
  })
  return response.json()
}

/**
 * Runs each call of the documentation's pages about calls and renewals, in every language that is installed on this machine. Repeats the
 * calls to check that the examples recorded them. Prints one line for each language. Throws if an example fails, prints a warning, or
 * records nothing.
 *
 * @param program a new program and one of its codes
 * @param folder a folder for the examples' files
 */
export async function runLanguages(program: Program, folder: string): Promise<void> {
  const pages = ['calls', 'renewals'].map(async (name) => (await fetch(`${program.baseUrl}/docs/${name}.md`)).text())
  const documentation = (await Promise.all(pages)).join('\n')
  for (const [name, language] of Object.entries(languages)) {
    const [tool, argument] = language.version
    const isInstalled = await run(tool, [argument]).then(
      () => true,
      () => false,
    )
    if (!isInstalled) {
      console.log(`  ${name} isn't installed here, so its examples don't run.`)
      continue
    }
    const { click_id: clickId } = await post(program, 'click', {
      affiliate_url: `https://shop.example.com/?aff=${program.partnerCode}`,
    })
    const examples = [...documentation.matchAll(/^```\w+ tab=(\w+)\n([^]*?)^```$/gm)].filter(([, tab]) => tab === name)
    const own = (code: string) =>
      code
        .replaceAll('aff=ann', `aff=${program.partnerCode}`)
        .replaceAll('CLICK_ID', String(clickId))
        .replaceAll(/\b(user|order|payment|refund|sub)-(\d)/g, `$1-${name}-$2`)
    for (const [index, [, , code = '']] of examples.entries()) {
      const file = path.join(folder, `${name}-${index}`, language.file)
      mkdirSync(path.dirname(file))
      writeFileSync(file, language.program(own(code)))
      const [command, ...args] = language.command
      const { stdout, stderr } = await run(command, [...args, file], {
        env: { ...process.env, SVC_API_KEY: program.apiKey },
      })
      // The examples print refusals and warnings, and curl prints every response.
      if (/svc |"success":false/.test(stdout + stderr)) throw new Error(`${file}\n${stdout}${stderr}`)
    }
    const recorded = [
      await post(program, 'lead', { customer_key: `user-${name}-1` }),
      await post(program, 'refund', {
        transaction_id: `order-${name}-1`,
        refund_amount_cents: 1000,
        refund_id: `refund-${name}-1`,
      }),
      await post(program, 'sale', {
        customer_key: `user-${name}-1`,
        transaction_id: `payment-${name}-2`,
        amount_cents: 4990,
      }),
    ]
    const [lead, refund, renewal] = recorded
    const isWhole =
      lead?.['duplicate'] === true &&
      refund?.['reason'] === 'refund_already_applied' &&
      JSON.stringify(renewal).includes('duplicate_transaction')
    if (!isWhole) throw new Error(`${name}\n${JSON.stringify(recorded, null, 2)}`)
    console.log(`  ${name}: ${examples.length} examples`)
  }
}

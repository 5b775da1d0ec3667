import { strFromU8, unzipSync } from 'fflate'
import { execFileSync } from 'node:child_process'
import { hash } from 'node:crypto'
import { existsSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeEach, describe, expect, test } from 'vitest'
import { proxyKey } from '../lib/access/proxy-keys.ts'
import { createApiKey } from '../lib/access/program-keys.ts'
import { createSandbox } from '../lib/local/sandbox.ts'
import { apply, confirmApplication, findApplication } from '../lib/programs/applications.ts'
import { changeJoinPage, readJoinPage } from '../lib/programs/join-page.ts'
import { createProgram, programDefaults } from '../lib/programs/programs.ts'
import { countClicks, recordClick } from '../lib/tracking/clicks.ts'
import { noClick } from './support/ledger.ts'
import { startSvc } from './support/svc.ts'

const resources = `
  partners groups applications codes links customers sales commissions payouts payout-runs adjustments imports
`
  .trim()
  .split(/\s+/)
const { stack, env, sandbox, connection, inFolder, read, svc, svcAlone, json } = await startSvc(
  ['track-click', 'track-lead', 'performance', ...resources],
  { name: 'Shoes `<b>` | and more', cookie_window_days: 45 },
)
const key = await proxyKey(stack.environment, sandbox.programId)

describe('svc init', () => {
  test('writes .svc/ with the settings and the filled-in instructions', async () => {
    const { exitCode, stdout, stderr } = await svcAlone(['init'])
    expect([exitCode, stderr]).toEqual([0, ''])
    expect(stdout).toContain(`program ${sandbox.programId}`)
    expect(read('.svc/.env')).toBe(
      `SVC_API_KEY=${sandbox.apiKey}\nSVC_PROGRAM_ID=${sandbox.programId}\n` +
        `PAYMENT_CONNECTED_ACCOUNT_ID=${sandbox.connectedAccountId}\nSVC_BASE_URL=${stack.baseUrl}\nSVC_PROXY_KEY=${key}\n`,
    )
    expect(statSync(inFolder('.svc/.env')).mode & 0o777).toBe(0o600)
    expect(read('.gitignore')).toBe('.svc/.env\n.svc/.env.*\n!.svc/.env.example\n')
    expect(read('.svc/.env.example')).toMatch(/^SVC_API_KEY=\nSVC_PROGRAM_ID=\nPAYMENT_CONNECTED_ACCOUNT_ID=\n/m)

    const instructions = read('.svc/AGENTS.md')
    expect(read('.svc/skills.md')).toBe(instructions)
    expect(instructions).not.toContain('{{')
    expect(instructions).not.toContain(sandbox.apiKey)
    for (const value of [
      `id \`${sandbox.programId}\``,
      '| Program | Shoes b and more,',
      '| Domain | shop.example.com |',
      '| Commission | 20% of a sale |',
      '| Cookie duration | 45 days |',
      `| API base URL | \`${stack.baseUrl}\` |`,
    ]) {
      expect(instructions).toContain(value)
    }
  })

  test('changes nothing when it runs again', async () => {
    await svc(['init'])
    const { files } = await json(['init', '--json'])
    expect(new Set(Object.values(files))).toEqual(new Set(['unchanged']))
    expect(Object.keys(files)).toEqual([
      '.gitignore',
      '.svc/.env',
      '.svc/.env.example',
      '.svc/AGENTS.md',
      '.svc/skills.md',
      'AGENTS.md',
    ])
  })

  test('finds its key and address in .svc/.env when it runs again', async () => {
    await svc(['init'])
    expect(await json(['init', '--json'], {})).toMatchObject({ success: true, program: { id: sandbox.programId } })
  })

  test('updates unedited instructions', async () => {
    await svc(['init'])
    await stack.sql.query('update programs set cookie_window_days = 60 where id = $1', [sandbox.programId])
    const { files } = await json(['init', '--json'])
    await stack.sql.query('update programs set cookie_window_days = 45 where id = $1', [sandbox.programId])
    expect(files).toMatchObject({ '.svc/AGENTS.md': 'updated', '.svc/skills.md': 'updated', '.svc/.env': 'unchanged' })
    expect(read('.svc/AGENTS.md')).toContain('| Cookie duration | 60 days |')
  })

  test.each(['AGENTS.md', 'skills.md', '.env.example'])('keeps manual changes in %s and reports that', async (name) => {
    await svc(['init'])
    const changed = `${read(`.svc/${name}`)}# Our own words\n`
    writeFileSync(inFolder(`.svc/${name}`), changed)
    const { stdout } = await svc(['init'])
    expect(stdout).toContain('kept: changed by hand; --force replaces it')
    expect(read(`.svc/${name}`)).toBe(changed)
    await svc(['init', '--force'])
    expect(read(`.svc/${name}`)).not.toContain('Our own words')
  })

  test('keeps every other line of .svc/.env and of .gitignore', async () => {
    await svc(['init'])
    writeFileSync(inFolder('.svc/.env'), '# Ours\nOTHER=1\nexport SVC_API_KEY=old\nPAYMENT_CONNECTED_ACCOUNT_ID=acct_x')
    writeFileSync(inFolder('.gitignore'), 'node_modules\n.svc/.env')
    await svc(['init'])
    expect(read('.svc/.env')).toBe(
      `# Ours\nOTHER=1\nSVC_API_KEY=${sandbox.apiKey}\nPAYMENT_CONNECTED_ACCOUNT_ID=${sandbox.connectedAccountId}\n` +
        `SVC_PROGRAM_ID=${sandbox.programId}\nSVC_BASE_URL=${stack.baseUrl}\nSVC_PROXY_KEY=${key}\n`,
    )
    expect(read('.gitignore')).toBe('node_modules\n.svc/.env\n.svc/.env.*\n!.svc/.env.example\n')
  })

  test.each([
    ['no file', undefined, (section: string) => `${section}\n`],
    ['an empty file', '', (section: string) => `${section}\n`],
    ['a file with other text', '# Ours\n\nUse tabs.', (section: string) => `# Ours\n\nUse tabs.\n\n${section}\n`],
    [
      'a section of an earlier run inside other text',
      '# Ours\n<!-- svc:start. Old. -->\nold words\n<!-- svc:end -->\nUse tabs.\n',
      (section: string) => `# Ours\n${section}\nUse tabs.\n`,
    ],
    [
      'a marker without its end',
      '<!-- svc:start. Old. -->\nUse tabs.\n',
      (section: string) => `<!-- svc:start. Old. -->\nUse tabs.\n\n${section}\n`,
    ],
  ])('links to .svc/ in a section of AGENTS.md, starting from %s', async (_, before, expected) => {
    if (before !== undefined) writeFileSync(inFolder('AGENTS.md'), before)
    await svc(['init'])
    const text = read('AGENTS.md')
    const [section = ''] = /<!-- svc:start\. `[^]*<!-- svc:end -->/.exec(text) ?? []
    expect(section).toContain(`${stack.baseUrl}/programs/${sandbox.programId}/check`)
    expect(section).not.toMatch(/svc_live_|\{\{|old words/)
    expect(text).toBe(expected(section))
    // The files don't repeat lines of each other.
    const instructions = read('.svc/AGENTS.md')
    for (const line of section.split('\n').filter((one) => one.length > 40)) expect(instructions).not.toContain(line)
    expect(await json(['init', '--json'])).toMatchObject({ files: { 'AGENTS.md': 'unchanged' } })
    expect(read('AGENTS.md')).toBe(text)
  })

  test('lets git track the template but not the keys', async () => {
    execFileSync('git', ['init', '-q'], { cwd: inFolder('.') })
    writeFileSync(inFolder('.gitignore'), '.env*\n')
    await svc(['init'])
    writeFileSync(inFolder('.svc/.env.local'), '')
    const seen = execFileSync('git', ['status', '--short', '-uall'], { cwd: inFolder('.'), encoding: 'utf8' })
    expect(seen).toContain('.svc/.env.example')
    expect(seen).not.toMatch(/\.svc\/\.env($|\.local)/m)
  })

  test('uses http if the service does', async () => {
    await svc(['init'])
    const instructions = read('.svc/AGENTS.md')
    expect(instructions).toContain(`http://shop.example.com/?aff=svc-test-${sandbox.programId}`)
    expect(instructions).not.toContain('https://shop.example.com')
    const { sent } = await json(['test', 'click', '--json'])
    expect(sent.body.page_url).toBe('http://shop.example.com/')
  })

  test('writes nothing if the service refuses the key', async () => {
    const { exitCode, stderr } = await svcAlone(['init', '--api-key', 'svc_live_wrong'])
    expect(exitCode).toBe(1)
    expect(stderr).toContain('create one in the dashboard')
    expect(existsSync(inFolder('.svc'))).toBe(false)
    expect(existsSync(inFolder('.gitignore'))).toBe(false)
  })
})

async function counted() {
  const { rows } = await stack.sql.query(
    'select (select count(*) from customers) + (select count(*) from commissions) as count',
  )
  return rows
}

describe('svc test', () => {
  test.each(['click', 'lead', 'sale'])(
    '%s sends a test event, shows that it arrived, and counts nothing',
    async (kind) => {
      const before = await counted()
      const event = await json(['test', kind, '--json'])
      expect(event).toMatchObject({ success: true, kind, program_id: sandbox.programId, id: expect.any(Number) })
      expect(Date.parse(event.arrived_at)).toBeGreaterThan(0)
      const again = await svc(['test', kind])
      expect([again.exitCode, again.stdout]).toEqual([0, expect.stringContaining(`✓ The test ${kind} arrived at `)])
      expect(await counted()).toEqual(before)
    },
  )

  test('sends a sale of the given amount', async () => {
    expect(await json(['test', 'sale', '--amount', '4990', '--json'])).toMatchObject({
      sent: { path: '/api/v1/track/sale', body: { amount_cents: 4990, additional_data: { test_mode: true } } },
    })
  })

  test.each([
    ['CLI-TEST', true, 'The partner of CLI-TEST would get it.'],
    ['NOBODYS', false, 'No partner has the code NOBODYS.'],
  ])('sale sends the code %s', async (coupon, attributed, output) => {
    const give = ['codes', 'create', '--partner-id', String(sandbox.partnerId), '--code', 'CLI-TEST']
    expect((await svc(give)).exitCode).toBe(0)
    const before = await counted()
    const event = await json(['test', 'sale', '--coupon', coupon, '--json'])
    expect(event).toMatchObject({ attributed, sent: { body: { coupon } } })
    expect((await svc(['test', 'sale', '--coupon', coupon])).stdout).toContain(output)
    expect(await counted()).toEqual(before)
  })
})

describe('svc status', () => {
  test('shows the checks with a remedy for each failure, and exits with 3 if one fails', async () => {
    const fresh = await createSandbox(stack.db, env)
    const own = { SVC_API_KEY: fresh.apiKey, SVC_BASE_URL: stack.baseUrl }
    const before = await svc(['status'], own)
    expect(before.exitCode).toBe(3)
    expect(before.stdout).toContain('✓ The program has an active referral link.')
    expect(before.stdout).toContain('✗ No click has arrived yet. Put the tracker on the site, or run `svc test click`.')
    for (const kind of ['click', 'lead', 'sale']) await svc(['test', kind], own)
    const after = await svc(['status'], own)
    expect([after.exitCode, after.stdout]).toEqual([0, expect.not.stringContaining('✗')])
    expect(await json(['status', '--json'], own)).toMatchObject({ success: true, program: { id: fresh.programId } })
  })

  test('shows refused calls and the remedy', async () => {
    const fresh = await createSandbox(stack.db, env)
    await fetch(`${stack.baseUrl}/api/v1/track/lead`, {
      method: 'POST',
      headers: { authorization: `Bearer ${fresh.apiKey}`, 'content-type': 'application/json' },
      body: JSON.stringify({ customer_key: 'u' }),
    })
    const own = { SVC_API_KEY: fresh.apiKey, SVC_BASE_URL: stack.baseUrl }
    expect((await svc(['status'], own)).stdout).toContain('✗ A lead came without a click id')
    await svc(['test', 'lead'], own)
    expect((await svc(['status'], own)).stdout).not.toContain('without a click id')
  })

  test("doesn't expect a processor in a shop that sends its sales itself", async () => {
    const fresh = await createSandbox(stack.db, env)
    await stack.sql.query('update programs set processor_account_id = null where id = $1', [fresh.programId])
    const own = { SVC_API_KEY: fresh.apiKey, SVC_BASE_URL: stack.baseUrl }
    for (const kind of ['click', 'lead', 'sale']) await svc(['test', kind], own)
    const { exitCode, stdout } = await svc(['status'], own)
    expect([exitCode, stdout]).toEqual([0, expect.stringContaining('– No payment processor is connected.')])
  })
})

describe('failures', () => {
  const other = createServer((_, response) => response.end('<h1>Some other site</h1>'))
  const closed = createServer()
  let otherUrl = ''
  let closedUrl = ''
  beforeEach(async () => {
    if (otherUrl) return
    const listen = (server: typeof other) =>
      new Promise<string>((resolve) => {
        server.listen(0, '127.0.0.1', () => resolve(`http://127.0.0.1:${(server.address() as AddressInfo).port}`))
      })
    otherUrl = await listen(other)
    closedUrl = await listen(closed)
    closed.close()
  })
  afterAll(() => other.close())

  test.each([
    ['no key', {}, 'no_api_key', 'Create one in the dashboard'],
    ['a wrong key', { SVC_API_KEY: 'svc_live_x', SVC_BASE_URL: stack.baseUrl }, 'unauthorized', 'in the dashboard'],
    ['no address', { SVC_API_KEY: 'k', SVC_BASE_URL: 'nowhere' }, 'invalid_base_url', '--base-url'],
    [
      'no service at the address',
      () => ({ SVC_API_KEY: 'k', SVC_BASE_URL: closedUrl }),
      'network_error',
      'Check the address',
    ],
    ['another site', () => ({ SVC_API_KEY: 'k', SVC_BASE_URL: otherUrl }), 'invalid_response', 'Check the address'],
  ])('with %s it says what to do next and exits with 1', async (_, environment, code, hint) => {
    const given: Record<string, string> = typeof environment === 'function' ? environment() : environment
    const { exitCode, stdout, stderr } = await svc(['status'], given)
    expect([exitCode, stdout, stderr]).toEqual([1, '', expect.stringContaining(hint)])
    const asJson = await svc(['status', '--json'], given)
    expect([asJson.exitCode, asJson.stderr]).toEqual([1, ''])
    expect(JSON.parse(asJson.stdout)).toMatchObject({
      success: false,
      error: { code, hint: expect.stringContaining(hint) },
    })
  })

  test.each([[['nonsense']], [['test', 'refund']], [['test', 'sale', '--amount', '9.90']], [['status', '--nonsense']]])(
    '%j is wrong usage and exits with 2',
    async (args) => {
      const { exitCode, stderr } = await svcAlone(args)
      expect([exitCode, stderr]).toEqual([2, expect.stringContaining('error:')])
    },
  )

  test.each([[['--help']], [['init', '--help']], [['status', '--help']], [['test', 'sale', '--help']]])(
    '%j shows examples and exits with 0',
    async (args) => {
      const { exitCode, stdout } = await svc(args)
      expect([exitCode, stdout]).toEqual([0, expect.stringContaining('$ svc ')])
    },
  )

  test("doesn't write colors without a terminal", async () => {
    const all = [await svcAlone(['status']), await svcAlone(['status'], {}), await svcAlone(['init'])]
    expect(all.map(({ stdout, stderr }) => stdout + stderr).join('')).not.toContain('\u001B')
  })
})

describe('svc performance', () => {
  test('shows groups and intervals as a table and as JSON', async () => {
    const shop = await createSandbox(stack.db, env)
    const own = { SVC_API_KEY: shop.apiKey, SVC_BASE_URL: stack.baseUrl }
    const click = { ...noClick, affiliate_url: 'https://shop.example.com/', partner_code: shop.partnerCode }
    for (const country of ['DE', 'DE', null]) await recordClick(stack.db, { ...click, geo_country: country }, null)
    while ((await countClicks(stack.db, 1000)) > 0);
    const args = ['performance', '--group-by', 'country', '--metrics', 'clicks,revenue_cents,conversion_rate']
    const shown = await svc(args, own)
    expect([shown.exitCode, shown.stdout.split('\n').map((line) => line.split(/ {2,}/))]).toEqual([
      0,
      [
        ['COUNTRY', 'CLICKS', 'REVENUE', 'CONVERSION RATE'],
        ['DE', '2', 'USD\u00a00.00', '0%'],
        ['(none)', '1', 'USD\u00a00.00', '0%'],
        ['total', '3', 'USD\u00a00.00', '0%'],
        [''],
      ],
    ])
    const month = `${new Date().toISOString().slice(0, 7)}-01`
    const cut = await json([...args, '--interval', 'month', '--from', month, '--limit', '1', '--json'], own)
    expect(cut).toMatchObject({
      total: { clicks: 3, intervals: [{ start: month, clicks: 3 }] },
      data: [{ value: 'DE', intervals: [{ start: month, clicks: 2 }] }],
    })
    expect(await svc(['performance', '--group-by', 'city'], own)).toMatchObject({
      exitCode: 1,
      stderr: expect.stringContaining('group_by must be partner or link'),
    })
  })
})

describe('svc partners, links, sales, commissions and payouts', () => {
  test('create and list, as tables and as JSON', async () => {
    const created = await json(['partners', 'create', '--name', 'Nora \u001b[31mField', '--code', 'nora-cli', '--json'])
    expect(created).toMatchObject({ success: false, error: { code: 'invalid_request' } })
    const create = ['partners', 'create', '--name', 'Nora Field', '--code', 'nora-cli', '--idempotency-key', 'cli-1']
    const { stdout, exitCode } = await svc(create)
    expect([exitCode, stdout]).toEqual([0, expect.stringMatching(/^✓ Partner \d+, Nora Field, code nora-cli\n$/)])
    expect((await svc(create)).stdout).toBe(stdout)
    const { data } = await json(['partners', 'list', '--search', 'nora', '--json'])
    expect(data).toMatchObject([{ name: 'Nora Field', status: 'active' }])
    const link = await svc(['links', 'create', '--partner-id', String(data[0].id), '--code', 'nora-two'])
    expect(link.stdout).toMatch(/^✓ Link \d+: https:\/\/shop\.example\.com\/\?aff=nora-two\n$/)
    const linkId = link.stdout.match(/\d+/)?.[0] ?? ''
    const shown = await svc(['links', 'show', linkId])
    expect(shown.stdout).toMatch(/^id +\d+\npartner +\d+\ncode +nora-two\n/)
    expect((await json(['links', 'show', linkId, '--json'])).link.code).toBe('nora-two')
    expect((await svc(['partners', 'show', String(data[0].id)])).stdout).toMatch(/\ncodes +nora-cli, nora-two\n/)
    await svc(['partners', 'update', String(data[0].id), '--email', 'nora@example.com', '--external-id', 'n-1'])
    const { partner } = await json(['partners', 'update', String(data[0].id), '--external-id', '', '--json'])
    expect(partner).toMatchObject({ email: 'nora@example.com', external_id: null })
    const page = ['--page-url', 'https://shop.example.com/spring']
    expect((await svc(['links', 'update', linkId, ...page])).stdout).toBe(`✓ Link ${linkId} was changed.\n`)
    expect((await json(['links', 'show', linkId, '--json'])).link.url).toContain('/spring?aff=nora-two')
    await svc(['links', 'update', linkId, '--page-url', ''])
    const table = await svc(['links', 'list', '--partner-id', String(data[0].id)])
    expect(table.stdout.split('\n')[0]).toMatch(/^ID +PARTNER +ADDRESS +STATUS +CLICKS +LAST CLICK$/)
    expect(table.stdout).toMatch(/aff=nora-two +active +0/)
    const first = await json(['links', 'list', '--limit', '1', '--json'])
    const second = await json(['links', 'list', '--limit', '1', '--cursor', first.next_cursor, '--json'])
    expect([first.data[0].code, second.data[0].code]).toEqual(['nora-two', 'nora-cli'])
  })

  test.each(['sales', 'commissions', 'payouts'])('%s list reports an empty list', async (noun) => {
    const fresh = await createSandbox(stack.db, env)
    const ofFresh = { ...connection, SVC_API_KEY: fresh.apiKey }
    expect(await svc([noun, 'list'], ofFresh)).toMatchObject({ exitCode: 0, stdout: `No ${noun}.\n` })
    expect(await json([noun, 'list', '--json'], ofFresh)).toEqual({ success: true, data: [], next_cursor: null })
  })

  test('show sales and commissions with their amounts', async () => {
    const click = await fetch(`${stack.baseUrl}/api/v1/track/click`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ affiliate_url: `https://shop.example.com/?aff=${sandbox.partnerCode}` }),
    })
    const { click_id } = await click.json()
    const body = { transaction_id: 'cli-1', customer_key: 'cli', click_id, amount_cents: 12_345 }
    const headers = { authorization: `Bearer ${sandbox.apiKey}`, 'content-type': 'application/json' }
    await fetch(`${stack.baseUrl}/api/v1/track/sale`, { method: 'POST', headers, body: JSON.stringify(body) })
    expect((await svc(['sales', 'list'])).stdout).toMatch(/cli-1 +\d+ +USD\s123\.45 +USD\s24\.69 +pending/)
    expect((await svc(['commissions', 'list', '--status', 'pending'])).stdout).toMatch(/cli-1 +USD\s24\.69 +pending/)
    expect((await svc(['sales', 'list', '--from', '2001-01-01', '--to', '2001-12-31'])).stdout).toBe('No sales.\n')
    expect((await svc(['customers', 'list', '--status', 'conversion'])).stdout).toMatch(
      / cli +cust_\d+_\d+ +\d+ +conversion/,
    )
    const deduct = ['--amount-cents', '-100', '--note', 'Twice', '--json']
    const { adjustment } = await json(['adjustments', 'create', '--partner-id', String(sandbox.partnerId), ...deduct])
    expect(adjustment.amount_cents).toBe(-100)
    const { data } = await json(['commissions', 'list', '--json'])
    await svc(['commissions', 'approve', String(data[0].id)])
    await fetch(`${stack.baseUrl}/api/v1/payout-runs`, { method: 'POST', headers, body: '{}' })
    const [payout] = (await json(['payouts', 'list', '--json'])).data
    const transfer = ['--reference', 'transfer 17', '--paid-on', new Date().toISOString().slice(0, 10)]
    const pay = await svc([
      'payouts',
      'pay',
      String(payout.id),
      '--amount-cents',
      String(payout.amount_cents),
      ...transfer,
    ])
    expect(pay.stdout).toMatch(/^✓ Payout \d+ of USD\s23\.69 is paid\.\n$/)

    const { group } = await json(['groups', 'create', '--name', 'By command', '--percent', '30', '--json'])
    expect((await svc(['groups', 'move', String(group.id), String(sandbox.partnerId), '999999'])).stdout).toBe(
      `✓ 1 of 2 are in group ${group.id}\n`,
    )
    const rules = ['--rules', '[{"sale_type": "payment", "commission_bp": 5000}]']
    const month = new Date().toISOString().slice(0, 7)
    const preview = ['rules', 'preview', '--month', month, ...rules]
    /**
     * The three sums of a preview, in tenths of the sales: with the program's 20%, with the group's 30%, and with
     * the new rules.
     */
    const tenths = async (...options: string[]) => {
      const { stdout } = await svc([...preview, ...options])
      const sums = Array.from(
        stdout.matchAll(/^all, .*$/gm),
        ([line]) => line.match(/\d+\.\d\d/g)?.map(Number) ?? [],
      ).flat()
      return sums.map((sum) => Math.round((sum / (sums[0] ?? 0)) * 2))
    }
    expect(await tenths()).toEqual([2, 3, 3])
    expect(await tenths('--group-id', String(group.id))).toEqual([2, 3, 5])
    expect((await svc(['rules', 'list'])).stdout).toBe('No rules.\n')
    expect((await svc(['rules', 'update', ...rules])).exitCode).toBe(0)
    expect((await svc(['rules', 'list'])).stdout).toBe('payment: 50%\n')
    expect((await svc(['rules', 'update', '--rules', '{}'])).exitCode).toBe(2)
    expect((await svc(['rules', 'update', '--rules', '[]'])).exitCode).toBe(0)
    const all = [
      {
        commission_fixed_cents: 1200,
        commission_duration_months: 12,
        lifetime_cap_cents: 5000,
        lead_commission_cents: 200,
      },
      { sale_type: 'addon', commission_bp: 1000, commission_fixed_cents: 50 },
    ]
    await svc(['rules', 'update', '--group-id', String(group.id), '--rules', JSON.stringify(all)])
    expect((await svc(['groups', 'list'])).stdout).toContain(
      'every sale: USD\u00a012.00 for 12 months up to USD\u00a050.00 for a customer with USD\u00a02.00 for a signup, addon: 10% and USD\u00a00.50\n',
    )
    expect((await svc(['groups', 'delete', String(group.id)])).stdout).toBe(`✓ Group ${group.id} was removed.\n`)
  })

  test('show, approve into a group, reject and delete applications', async () => {
    await changeJoinPage(stack.db, sandbox.programId, {
      is_open: true,
      questions: [{ label: 'Where?', type: 'short', required: true }],
    })
    const { version } = await readJoinPage(stack.db, sandbox.programId)
    const send = async (name: string) => {
      const { applicationId, token } = await apply(stack.db, {
        programId: sandbox.programId,
        userId: null,
        name,
        email: `${crypto.randomUUID()}@example.com`,
        answers: [{ question: 'Where?', answer: 'On \u001b[31mmy site' }],
        seen: { version },
      })
      const found = await findApplication(stack.db, token)
      if (found) await confirmApplication(stack.db, found)
      return String(applicationId)
    }
    const [grace, eve] = [await send('Grace'), await send('Eve')]
    const { group } = await json(['groups', 'create', '--name', 'Joined', '--percent', '25', '--json'])
    expect((await svc(['applications', 'list', '--status', 'waiting'])).stdout).toMatch(/Grace .*\n?/)
    expect((await svc(['applications', 'show', grace])).stdout).toMatch(
      /^Grace, \S+@example\.com: waiting, applied .*\n\nWhere\?\nOn .*my site\n$/,
    )
    expect((await svc(['applications', 'show', grace])).stdout).not.toContain('\u001b[31m')
    const approve = ['applications', 'approve', grace, '--group-id', String(group.id)]
    expect((await svc(approve)).stdout).toMatch(
      new RegExp(`^✓ Application ${grace} of Grace was approved, partner \\d+\n$`),
    )
    expect(await json(['groups', 'list', '--json'])).toMatchObject({ data: [{ name: 'Joined', partners: 1 }] })
    const refused: [args: string[], exitCode: number, stderr: string][] = [
      [['applications', 'reject', grace], 1, 'already approved'],
      [['applications', 'delete', grace], 1, 'already a partner'],
      [['applications', 'delete', eve], 1, 'Reject it first'],
      [['applications', 'show', '999999'], 1, 'no such application'],
      [['applications', 'approve', 'grace'], 2, 'number'],
    ]
    for (const [args, exitCode, stderr] of refused)
      expect(await svc(args)).toMatchObject({ exitCode, stderr: expect.stringContaining(stderr) })
    expect((await svc(['applications', 'reject', eve, '--note', 'No coupons'])).stdout).toBe(
      `✓ Application ${eve} of Eve was rejected\n`,
    )
    expect((await json(['applications', 'show', eve, '--json'])).application.note).toBe('No coupons')
    expect((await svc(['applications', 'delete', eve])).stdout).toBe(`✓ Application ${eve} was deleted.\n`)
  })

  test('import from files: plan, rows, apply and undo', async () => {
    const files = ['people.csv', 'customers.csv']
    const people = '\uFEFFWho;Email;Token\nIda Moss;ida@example.com;ida-moved\n;;bad code'
    writeFileSync(inFolder('people.csv'), Buffer.from(people, 'utf16le'))
    writeFileSync(inFolder('customers.csv'), 'customer id,affiliate email\nida-1,ida@example.com')
    const mapping = ['--mapping', '{"partners": {"name": "Who"}}']
    const planned = await svc(['import', 'plan', 'rewardful', ...files, ...mapping])
    expect([planned.exitCode, planned.stderr]).toEqual([0, ''])
    expect(planned.stdout).toMatch(/state +planned\n/)
    expect(planned.stdout).toMatch(/people\.csv +partners: link = "Token", name = "Who", email = "Email"\n/)
    const id = /^id +(\d+)/.exec(planned.stdout)?.[1] ?? ''
    expect(planned.stdout).toContain(`Nothing has changed yet. Apply it: svc import apply ${id}\n`)
    const rows = await svc(['import', 'rows', id, '--outcome', 'error'])
    expect(rows.stdout).toMatch(/^OUTCOME +KIND +IN THE SOURCE +WHERE +REASON\nerror +partner .*people\.csv line 3 /)
    expect((await json(['import', 'apply', id, '--json'])).applied_rows).toBe(3)
    expect((await svc(['import', 'list'])).stdout).toMatch(new RegExp(`\n${id} .*rewardful +applied +\\d+ +3\n`))
    expect((await json(['links', 'list', '--search', 'ida-moved', '--json'])).data).toHaveLength(1)
    expect((await svc(['import', 'undo', id])).stdout).toMatch(/state +undone\n/)
    expect(await svc(['import', 'plan', 'tolt', '--source-key', 'key'])).toMatchObject({
      exitCode: 1,
      stderr: expect.stringContaining('must be the id of the account or program'),
    })
    expect((await svc(['import', 'plan', 'elsewhere'])).exitCode).toBe(2)
  })

  test('export the whole program into one file, and fill another program from it', async () => {
    expect((await svc(['export', 'moved.zip'])).stdout).toMatch(/^✓ \d+ rows are in moved\.zip\.\n$/)
    const { 'manifest.json': manifest, ...files } = unzipSync(readFileSync(inFolder('moved.zip')))
    const declared: { name: string; sha256: string }[] = JSON.parse(strFromU8(manifest ?? new Uint8Array())).files
    const hashes = declared.map(({ name, sha256 }) => [name, sha256])
    expect(hashes).toEqual(Object.entries(files).map(([name, file]) => [name, hash('sha256', file)]))
    expect(await svc(['export', 'moved.zip'])).toMatchObject({
      exitCode: 1,
      stderr: expect.stringContaining('already exists'),
    })
    const { rows } = await stack.sql.query('select workspace_id from programs where id = $1', [sandbox.programId])
    const other = await createProgram(stack.db, rows[0].workspace_id, {
      ...programDefaults,
      name: 'Moved',
      domain: 'moved.example.com',
    })
    const SVC_API_KEY = await createApiKey(stack.db, other, 'mover', { scopes: ['manage', 'read'] })
    const there = { ...connection, SVC_API_KEY }
    const planned = await svc(['import', 'plan', 'archive', 'moved.zip'], there)
    const id = /^id +(\d+)/.exec(planned.stdout)?.[1] ?? ''
    expect(planned.stdout).toContain(`Nothing has changed yet. Apply it: svc import apply ${id}\n`)
    expect((await svc(['import', 'apply', id], there)).stdout).toMatch(/state +applied\n/)
    const transactions = async (environment: typeof connection) =>
      (await json(['sales', 'list', '--json'], environment)).data.map(
        ({ transaction_id: sale }: { transaction_id: string }) => sale,
      )
    expect(await transactions(there)).toEqual(await transactions(connection))
    expect(await svc(['import', 'plan', 'archive', 'none.zip'], there)).toMatchObject({
      exitCode: 1,
      stderr: expect.stringContaining('cannot be read'),
    })
  })

  test('explain a sale as text and as JSON, and report a missing sale', async () => {
    const { stdout, exitCode } = await svc(['sales', 'explain', 'cli-1'])
    expect([exitCode, stdout.split('\n')[0]]).toEqual([0, expect.stringContaining('$24.69')])
    expect(stdout).toMatch(/STEP +FOUND +MEANS\ncustomer_key +unknown .*\nclick_id +found /)
    expect(stdout).toMatch(/DATE +WHAT +COMMISSION +IN WORDS\n\S+ +recorded .*\n\S+ +commission +\+USD\s24\.69 /)
    const { explanation } = await json(['sales', 'explain', 'cli-1', '--json'])
    expect(explanation).toMatchObject({ transaction_id: 'cli-1', attributed: true, commission: { left_cents: 2469 } })
    expect(await svc(['sales', 'explain', 'cli-1', '--test'])).toMatchObject({
      exitCode: 1,
      stderr: expect.stringContaining('There is no sale'),
    })
  })

  test('exit with 1 and say what to do after a wrong filter or with a key without the scope', async () => {
    expect(await svc(['partners', 'list', '--status', 'odd'])).toMatchObject({
      exitCode: 1,
      stderr: expect.stringContaining('status must be active or inactive or ended'),
    })
    const tracking = await createApiKey(stack.db, sandbox.programId, 'tracking')
    expect(await svc(['partners', 'list'], { ...connection, SVC_API_KEY: tracking })).toMatchObject({
      exitCode: 1,
      stderr: expect.stringContaining('Create a key for reading and changing the program'),
    })
    expect((await svc(['partners', 'create'])).exitCode).toBe(2)
  })
})

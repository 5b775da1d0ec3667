import { randomUUID } from 'node:crypto'
import * as z from 'zod'
import { readOptions, runCommand } from './command.ts'
import { OperatorError } from './operator-error.ts'
import { testCode } from '../tracking/test-links.ts'

const usage = `npm run -s probe [-- --max-seconds 5]    sends a click, a lead, a sale and a refund as test events, and exits with 1 if one fails or is slow
  SVC_API_KEY=svc_live_...                a key of the program that the probe uses, with the scope track
  SVC_BASE_URL=https://api.example.com    the address of the API`

const { values } = readOptions(usage, { options: { 'max-seconds': { type: 'string', default: '5' } } })

/** The fields of the responses that the probe reads. */
const statusAnswer = z.object({ program: z.object({ id: z.number(), domain: z.string() }) })
const clickAnswer = z.object({ click_id: z.string() })
const leadAnswer = z.object({ lead_id: z.number() })
const saleAnswer = z.object({ sale_id: z.number() })
const refundAnswer = z.object({ status: z.literal('no_commission') })

/**
 * `npm run -s probe`: goes from a click to a refund through the public API, like a partner's visitor and a shop. It uses the program's
 * test link, so that no figure counts it and nobody earns a commission. Each call may take up to `--max-seconds`. Prints the time of each
 * call.
 */
async function probe(): Promise<void> {
  const { SVC_API_KEY: key, SVC_BASE_URL: baseUrl } = process.env
  if (!key || !baseUrl) throw new OperatorError(`Set SVC_API_KEY and SVC_BASE_URL.\n${usage}`)
  const maxSeconds = Number(values['max-seconds'])
  if (!(maxSeconds > 0 && maxSeconds <= 60)) throw new OperatorError('--max-seconds takes a number up to 60.')

  const send = async <T>(name: string, path: string, schema: z.ZodType<T>, body?: object, headers: object = {}) => {
    const started = performance.now()
    const response = await fetch(new URL(path, baseUrl), {
      method: body ? 'POST' : 'GET',
      headers: { ...headers, 'content-type': 'application/json' },
      ...(body && { body: JSON.stringify(body) }),
      signal: AbortSignal.timeout(Math.ceil(maxSeconds * 1000)),
    }).catch((error: unknown) => {
      throw new OperatorError(
        `${name}: no answer within ${maxSeconds} s (${error instanceof Error ? error.message : 'unknown'}).`,
      )
    })
    const text = await response.text()
    const answer = response.ok ? schema.safeParse(JSON.parse(text)) : undefined
    if (!answer?.success) throw new OperatorError(`${name}: answered ${response.status} ${text.slice(0, 300)}`)
    console.log(`${name} ${Math.round(performance.now() - started)} ms`)
    return answer.data
  }

  const keyed = { authorization: `Bearer ${key}` }
  const { program } = await send('status', '/api/v1/cli/status', statusAnswer, undefined, keyed)
  const page_url = `https://${program.domain}/`
  const click = {
    affiliate_url: `${page_url}?aff=${testCode(program.id)}`,
    page_url,
    additional_data: { program_id: program.id },
  }
  const { click_id } = await send('click', '/api/v1/track/click', clickAnswer, click)
  const customer_key = `probe_${randomUUID()}`
  const transaction_id = `probe_${randomUUID()}`
  await send('lead', '/api/v1/track/lead', leadAnswer, { click_id, customer_key }, keyed)
  await send('sale', '/api/v1/track/sale', saleAnswer, { transaction_id, customer_key, amount_cents: 100 }, keyed)
  await send('refund', '/api/v1/track/refund', refundAnswer, { transaction_id }, keyed)
}

await runCommand(usage, probe)

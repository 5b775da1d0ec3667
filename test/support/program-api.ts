import { operations } from '../../lib/api/operations.ts'
import { readFunctions } from '../../lib/commands/wrangler-file.ts'
import { salePath, startTrackingApi } from './api.ts'

/** Every operation of the program API, with its functions. */
export const programOperations = operations.filter(({ scope }) => scope !== undefined)
export const programFunctions = readFunctions().filter(({ main, paths }) =>
  programOperations.some(
    ({ path }) => main.startsWith('functions/') && paths.some((own) => own.replace(/\*$/, '') === root(path)),
  ),
)
function root(path: string): string {
  return path.replace(/\/\{.*/, '')
}

/** The number of database requests of a successful call: one for the key and one for the work. */
export const twoRequests = { databaseRequests: 2 }
export const withKey = (token: string) => ({ headers: { 'idempotency-key': token } })

/** Starts the program API for one test file, with the keys of two programs. */
export async function startProgramApi(functions = programFunctions.map(({ name }) => name)) {
  const api = await startTrackingApi({
    functions: ['track-click', 'track-lead', 'track-sale', 'track-refund', ...functions],
  })
  const program = await api.program()
  const other = await api.program()
  const key = { key: program.apiKey }

  const post = (path: string, body: unknown, options = {}) =>
    api.call(path, body, { ...key, ...twoRequests, ...options })
  /** Sends a call without counting its requests, because one of them sends a mail after the response. */
  const mailing = async (method: string, path: string, body: unknown, options = {}) => {
    const [answer] = await api.callAll(path, [body], { method, ...key, ...options })
    if (!answer) throw new Error('there was no answer')
    return answer
  }

  return {
    api,
    program,
    other,
    key,
    get: (path: string, options = {}) =>
      api.call(path, undefined, { method: 'GET', ...key, ...twoRequests, ...options }),
    post,
    patch: (path: string, body: unknown, options = {}) =>
      api.call(path, body, { method: 'PATCH', ...key, ...twoRequests, ...options }),
    mailing,
    /** Approves a commission. The number of requests depends on whether the partner's addresses are hashed yet. */
    approve: (commission: number) => mailing('PATCH', `/api/v1/commissions/${commission}`, { status: 'approved' }),
    listenTo: async (settings: object = {}, options: object = {}) => {
      const asked = { url: 'https://hooks.example.com/a', types: ['sale.created'], ...settings }
      return (await post('/api/v1/webhook-endpoints', asked, options)).body.webhook_endpoint
    },
    /** Records a partner's sale and returns its commission. */
    sell: async (): Promise<number> => {
      const sale = {
        transaction_id: crypto.randomUUID(),
        customer_key: crypto.randomUUID(),
        click_id: await api.click(program),
      }
      return (await api.call(salePath, { ...sale, amount_cents: 1000 }, key)).body.commission_id
    },
  }
}

import { onlyMethods } from '../lib/api/app.ts'
import { accept } from '../lib/api/input.ts'
import { idCursorOf, listed, pageOf } from '../lib/api/lists.ts'
import { createProgramApi, known, withKey } from '../lib/api/program-key.ts'
import { salePath, saleQuery, salesQuery } from '../lib/api/sales.ts'
import { explainSale } from '../lib/money/explanation.ts'
import { listSales, readSale } from '../lib/money/sale-list.ts'

const app = createProgramApi()
const [all, one] = ['/api/v1/sales', '/api/v1/sales/:transaction_id'] as const
const why = `${one}/explanation` as const

app.get(all, withKey('read'), accept('query', salesQuery, known), async (c) => {
  const query = c.req.valid('query')
  const sales = await listSales(c.get('db'), c.get('programId'), pageOf(query))
  return c.json(listed(sales, query.limit, (sale) => sale, idCursorOf))
})
app.all(all, onlyMethods('GET', 'HEAD'))

app.get(one, withKey('read'), accept('param', salePath, known), accept('query', saleQuery, known), async (c) => {
  const { test = false } = c.req.valid('query')
  const sale = await readSale(c.get('db'), c.get('programId'), c.req.valid('param').transaction_id, test)
  return c.json({ success: true, sale })
})
app.all(one, onlyMethods('GET', 'HEAD'))

app.get(why, withKey('read'), accept('param', salePath, known), accept('query', saleQuery, known), async (c) => {
  const { test = false } = c.req.valid('query')
  const { transaction_id } = c.req.valid('param')
  const request = { programId: c.get('programId'), transaction_id, test, withCustomer: true }
  return c.json({ success: true, explanation: await explainSale(c.get('db'), request) })
})
app.all(why, onlyMethods('GET', 'HEAD'))

export default app

import { onlyMethods } from '../lib/api/app.ts'
import { asCustomer, customerPath, customersQuery } from '../lib/api/customers.ts'
import { accept } from '../lib/api/input.ts'
import { idCursorOf, listed, pageOf } from '../lib/api/lists.ts'
import { createProgramApi, known, withKey } from '../lib/api/program-key.ts'
import { listCustomers, readCustomer } from '../lib/tracking/customer-list.ts'

const app = createProgramApi()
const [all, one] = ['/api/v1/customers', '/api/v1/customers/:customer'] as const

app.get(all, withKey('read'), accept('query', customersQuery, known), async (c) => {
  const query = c.req.valid('query')
  const customers = await listCustomers(c.get('db'), c.get('programId'), pageOf(query))
  return c.json(listed(customers, query.limit, asCustomer, idCursorOf))
})
app.all(all, onlyMethods('GET', 'HEAD'))

app.get(one, withKey('read'), accept('param', customerPath, known), async (c) => {
  const customer = await readCustomer(c.get('db'), c.get('programId'), c.req.valid('param').customer)
  return c.json({ success: true, customer: asCustomer(customer) })
})
app.all(one, onlyMethods('GET', 'HEAD'))

export default app

import { may } from '../../../lib/access/roles.ts'
import { searchProgram } from '../../../lib/programs/search.ts'
import { Card } from '../components/blocks.tsx'
import { saleAddress } from '../components/explanation.tsx'
import { ProgramPage } from '../components/layout.tsx'
import { Find, searchIn } from '../components/list.tsx'
import { programNav } from '../components/navigation.tsx'
import { createProgramPages, requireProgram } from '../components/page.ts'
import { customerAddress } from './customer.tsx'
import { partnerAddress } from './partner-columns.tsx'

/** Searches a program: its partners, customers and sales, and the pages themselves. The dialog of every page shows the same results. */
export const pages = createProgramPages()

interface Result {
  kind: string
  text: string
  href: string
}

pages.get('/search', requireProgram('program:read'), async (c) => {
  const program = c.get('program')
  const text = searchIn(c)
  const sees = (action: Parameters<typeof may>[1]) => may(program.roles, action)
  const kinds = {
    partners: sees('partner:list'),
    emails: sees('payout-address:read'),
    customers: sees('tracking:list'),
    sales: sees('commission:list'),
  }
  const found = text === undefined ? undefined : await searchProgram(c.get('db'), program.id, text, kinds)
  const entries = programNav(program).flatMap(({ items }) => items)
  const results: Result[] = [
    ...(found?.sales ?? []).map(({ transaction_id: id, is_test: isTest }) => ({
      kind: isTest ? 'Test sale' : 'Sale',
      text: id,
      href: saleAddress(program.id, id, isTest),
    })),
    ...(found?.customers ?? []).map(({ id, customer_key: key, click_id: clickId }) => ({
      kind: 'Customer',
      text: key ?? clickId,
      href: customerAddress(program.id, id),
    })),
    ...(found?.partners ?? []).map(({ id, name }) => ({
      kind: 'Partner',
      text: name,
      href: partnerAddress(program.id, id),
    })),
    ...entries
      .filter(({ label }) => label.toLowerCase().includes(text?.toLowerCase() ?? ''))
      .map(({ label, href }) => ({ kind: 'Page', text: label, href })),
  ]
  return c.render(
    <ProgramPage
      title="Search"
      lead="Find partners by name, e-mail or code, customers by key or click id, sales by transaction id, and pages."
    >
      <Find address={c.req.path} query={{ q: text }} what="Name, code, customer key or transaction id" />
      <Card>
        <div data-results class="stack tight">
          {results.length === 0 && <p class="muted">Nothing matches.</p>}
          <ul class="results">
            {results.map(({ kind, text: name, href }) => (
              <li>
                <a href={href}>
                  <bdi>{name}</bdi> <span class="muted small">{kind}</span>
                </a>
              </li>
            ))}
          </ul>
        </div>
      </Card>
    </ProgramPage>,
  )
})

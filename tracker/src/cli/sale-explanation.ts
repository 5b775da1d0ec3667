import type { ApiOperations } from '../api-types.ts'
import { day, money, plain, style, table } from './text.ts'

const part = (title: string, rows: string[][], titles: string[]) =>
  rows.length === 0 ? [] : ['', style('bold', title), table(titles, rows)]

/** Formats the explanation of a sale. */
export function explained({ explanation }: ApiOperations['explainSale']['answer']): string {
  const { summary, steps, click, history, sale, deliveries } = explanation
  const signed = (cents: number) =>
    cents === 0 || !sale ? '' : `${cents > 0 ? '+' : ''}${money(cents, sale.currency)}`
  return [
    plain(summary),
    ...part(
      'Steps',
      steps.map(({ step, found, text }) => [step, found, text].map(plain)),
      ['STEP', 'FOUND', 'MEANS'],
    ),
    ...(click ? ['', plain(click.text)] : []),
    ...part(
      'Later',
      history.map(({ at, kind, text, change_cents: change }) => [plain(day(at)), kind, signed(change), plain(text)]),
      ['DATE', 'WHAT', 'COMMISSION', 'IN WORDS'],
    ),
    ...part(
      'Processor events',
      deliveries.map(({ received_at: at, event_type: type, outcome, reason }) =>
        [at, type, outcome, reason].map(plain),
      ),
      ['RECEIVED', 'EVENT', 'OUTCOME', 'WHY'],
    ),
  ].join('\n')
}

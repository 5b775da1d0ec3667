import { sale } from '../texts/messages/sale.ts'
import { createTexts, type Texts } from '../texts/texts.ts'

/** The texts of a sale's explanation. The API explains sales in English. */
export type SaleTexts = Pick<Texts, 'fixed' | 'money' | 'percent' | 'day' | 'list'>
export const englishSale: SaleTexts = createTexts(sale, 'en')

import { findAccess } from '../lib/access/program-access.ts'
import { may } from '../lib/access/roles.ts'
import { createApp, onlyMethods } from '../lib/api/app.ts'
import { countReader, privateHeaders, type ReadEnv } from '../lib/api/session.ts'
import { type Database, openDatabase } from '../lib/database.ts'
import { ApiError } from '../lib/errors.ts'
import { chooseLanguage } from '../lib/languages.ts'
import { isCurrency } from '../lib/money.ts'
import {
  maxStatementEntries,
  type PrintedDocument,
  printDocument,
  printStatement,
  renderPdf,
} from '../lib/money/document-pdf.ts'
import { documentStatement } from '../lib/money/documents.ts'
import { fontBase64 } from '../tracker/dist/served/document-font.js'
import { portal } from '../lib/texts/messages/portal.ts'
import { createTexts } from '../lib/texts/texts.ts'
import { listStatementEntries, monthRange, readStatementTotals, type StatementOf } from '../lib/money/statements.ts'

/**
 * Serves documents as PDF files to members who may list payouts and to the document's partner. The renderer is large, so it has its own
 * function.
 */
const app = createApp<ReadEnv>()

const missing = () => new ApiError('not_found', 'There is no such document, or you have no access to it.')

const idOf = (text: string): number | undefined => (/^[1-9]\d{0,14}$/.test(text) ? Number(text) : undefined)

/** Finds the program and its reader: a member with access to its payouts, or any other person. First refuses unknown sessions. */
async function readerOf(db: Database, env: ReadEnv, headers: Headers, program: string) {
  const programId = idOf(program)
  const { access } = await findAccess(db, env, headers, programId)
  if (programId === undefined) throw missing()
  return {
    programId,
    userId: access.user.id,
    isMember: access.program !== undefined && may(access.roles, 'payout:list'),
  }
}

const pdfHeaders = (name: string) => ({
  ...privateHeaders,
  'Content-Type': 'application/pdf',
  'Content-Disposition': `attachment; filename="${name}.pdf"`,
  'X-Content-Type-Options': 'nosniff',
})

const pdf = (document: PrintedDocument, name: string) =>
  new Response(renderPdf(document, fontBase64), { headers: pdfHeaders(name) })

const documentPath = '/documents/:programId/:documentId'
app.get(documentPath, countReader, async (c) => {
  const db = openDatabase(c.env)
  const { programId, userId, isMember } = await readerOf(db, c.env, c.req.raw.headers, c.req.param('programId'))
  const documentId = idOf(c.req.param('documentId')) ?? 0
  const [document] = await db.query(documentStatement(isMember ? { programId } : { userId }, programId, documentId))
  if (!document) throw missing()
  return pdf(printDocument(document), `${document.series}-${document.number}`)
})
app.all(documentPath, onlyMethods('GET', 'HEAD'))

const statementPath = '/documents/:programId/statements/:month'
app.get(statementPath, countReader, async (c) => {
  const db = openDatabase(c.env)
  const { programId, userId, isMember } = await readerOf(db, c.env, c.req.raw.headers, c.req.param('programId'))
  const month = c.req.param('month')
  const range = monthRange(month)
  if (!range) throw missing()
  const { partner, currency = '', language } = c.req.query()
  const of: StatementOf =
    isMember && partner !== undefined ? { programId, partnerId: idOf(partner) ?? 0 } : { userId, programId }
  const period = { ...range, currency: isCurrency(currency) ? currency : null }
  const [totals, entries] = await Promise.all([
    readStatementTotals(db, of, period),
    listStatementEntries(db, of, period, { limit: maxStatementEntries + 1 }),
  ])
  const texts = createTexts(portal, chooseLanguage([language]))
  return pdf(
    printStatement(range, new Date(), totals, entries, texts),
    `statement-${programId}-${month}-${totals.currency}`,
  )
})
app.all(statementPath, onlyMethods('GET', 'HEAD'))

export default app

import { createMiddleware } from 'hono/factory'
import { limitBodyTo, maxImportBytes, onlyMethods } from '../lib/api/app.ts'
import { asExport, exportPath } from '../lib/api/exports.ts'
import {
  asImport,
  asImportRow,
  asNewImport,
  importPath,
  importRowsQuery,
  importsQuery,
  newImport,
  newPart,
} from '../lib/api/imports.ts'
import { accept } from '../lib/api/input.ts'
import { cursorOf, idCursorOf, listed, pageOf } from '../lib/api/lists.ts'
import { type Database, openDatabase } from '../lib/database.ts'
import { archiveResponse, createExport } from '../lib/moving/exports.ts'
import { createProgramApi, known, withIdempotency, withKey, withoutFields } from '../lib/api/program-key.ts'
import {
  applyImport,
  continueImport,
  createImport,
  importFiles,
  listImportRows,
  listImports,
  readImport,
  refuseImport,
  storeArchivePart,
  undoImport,
} from '../lib/moving/imports.ts'
import type { ImportEnv } from '../lib/moving/read-service.ts'

/** The time limit for work during a call. The rest of the work continues after the response. */
const seconds = 15
const secondsAfterwards = 600

const app = createProgramApi<ImportEnv>()
const all = '/api/v1/imports'
const one = `${all}/:import_id` as const
const named = accept('param', importPath, known)

app.get(all, withKey('read'), accept('query', importsQuery, known), async (c) => {
  const query = c.req.valid('query')
  const imports = await listImports(c.get('db'), c.get('programId'), pageOf(query))
  return c.json(listed(imports, query.limit, asImport, idCursorOf))
})

const limitImports = createMiddleware<{ Variables: { db: Database; programId: number } }>(async (c, next) => {
  await refuseImport(c.get('db'), c.get('programId'))
  await next()
})

app.post(
  all,
  limitBodyTo(maxImportBytes),
  withKey('manage'),
  accept('json', newImport, known),
  limitImports,
  withIdempotency,
  async (c) => {
    const programId = c.get('programId')
    const importRequest = asNewImport(c.req.valid('json'))
    const importId = await createImport(
      c.get('db'),
      c.env,
      programId,
      importRequest.source,
      importRequest.access,
      importRequest.parts,
    )
    // The request has used up its token. The rest of the work is safe to repeat without a token.
    const db = openDatabase(c.env).actingByKey(c.get('key'))
    if (importRequest.access) await continueImport(db, c.env, { programId, importId, seconds })
    else if (importRequest.parts === undefined)
      await importFiles(db, c.env, programId, importId, { ...importRequest, seconds })
    const planned = await readImport(db, programId, importId)
    c.executionCtx.waitUntil(continueImport(db, c.env, { programId, importId, seconds: secondsAfterwards }))
    return c.json({ success: true, ...asImport(planned) }, 201)
  },
)
app.all(all, onlyMethods('GET', 'HEAD', 'POST'))

app.get(one, withKey('read'), named, async (c) => {
  const found = await readImport(c.get('db'), c.get('programId'), c.req.valid('param').import_id)
  return c.json({ success: true, ...asImport(found) })
})
app.all(one, onlyMethods('GET', 'HEAD'))

app.post(
  `${one}/parts`,
  limitBodyTo(maxImportBytes),
  withKey('manage'),
  named,
  accept('json', newPart, known),
  async (c) => {
    const db = openDatabase(c.env).actingByKey(c.get('key'))
    const { import_id: importId } = c.req.valid('param')
    const now = await storeArchivePart(db, c.env, c.get('programId'), importId, c.req.valid('json'))
    return c.json({ success: true, ...asImport(now) })
  },
)
app.all(`${one}/parts`, onlyMethods('POST'))

app.get(`${one}/rows`, withKey('read'), named, accept('query', importRowsQuery, known), async (c) => {
  const { limit, cursor, outcome } = c.req.valid('query')
  const { import_id: importId } = c.req.valid('param')
  const rows = await listImportRows(c.get('db'), c.get('programId'), importId, {
    limit: limit + 1,
    before: cursor,
    outcome,
  })
  if (rows.length === 0) await readImport(c.get('db'), c.get('programId'), importId)
  return c.json(listed(rows, limit, asImportRow, ({ id }) => cursorOf(id)))
})
app.all(`${one}/rows`, onlyMethods('GET', 'HEAD'))

for (const [act, work] of [
  ['apply', applyImport],
  ['undo', undoImport],
] as const) {
  app.post(`${one}/${act}`, limitBodyTo(1024), withKey('manage'), named, withoutFields, async (c) => {
    const [db, programId] = [c.get('db'), c.get('programId')]
    const { import_id: importId } = c.req.valid('param')
    const done = await work(db, c.env, programId, importId, seconds)
    c.executionCtx.waitUntil(continueImport(db, c.env, { programId, importId, seconds: secondsAfterwards }))
    return c.json({ success: true, ...asImport(done) })
  })
  app.all(`${one}/${act}`, onlyMethods('POST'))
}

const exports = '/api/v1/exports'

app.post(exports, limitBodyTo(1024), withKey('manage'), withoutFields, withIdempotency, async (c) => {
  const created = await createExport(c.get('db'), c.get('programId'))
  return c.json({ success: true, ...asExport(created) }, 201)
})
app.all(exports, onlyMethods('POST'))

app.get(`${exports}/:export_id/archive`, withKey('manage'), accept('param', exportPath, known), async (c) => {
  const { export_id: exportId } = c.req.valid('param')
  return await archiveResponse(openDatabase(c.env), c.env.EMAIL_HASH_KEY, c.get('programId'), exportId)
})
app.all(`${exports}/:export_id/archive`, onlyMethods('GET', 'HEAD'))

export default app

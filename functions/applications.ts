import { limitBody, onlyMethods } from '../lib/api/app.ts'
import {
  applicationDecision,
  applicationPath,
  applicationsQuery,
  asApplication,
  asJoinPage,
  joinPageChanges,
  newApplication,
} from '../lib/api/applications.ts'
import { accept } from '../lib/api/input.ts'
import { idCursorOf, listed, pageOf } from '../lib/api/lists.ts'
import { createProgramApi, known, withIdempotency, withKey } from '../lib/api/program-key.ts'
import { newToken } from '../lib/access/tokens.ts'
import { openDatabase } from '../lib/database.ts'
import { ApiError } from '../lib/errors.ts'
import { createOnce } from '../lib/idempotency.ts'
import { canMail, mailIsMissing } from '../lib/mail.ts'
import { type RelayEnv, sendSoon } from '../lib/notifications/outbox.ts'
import {
  type ApplicationMailEnv,
  mailApprovals,
  mailConfirmation,
  mailRejection,
} from '../lib/programs/application-mails.ts'
import {
  applyByKey,
  approveApplication,
  deleteApplication,
  hexHash,
  listApplications,
  readApplication,
  rejectApplication,
} from '../lib/programs/applications.ts'
import { changeJoinPage, readJoinPage } from '../lib/programs/join-page.ts'

const app = createProgramApi<RelayEnv & ApplicationMailEnv>()
const [all, one, page] = ['/api/v1/applications', '/api/v1/applications/:application_id', '/api/v1/join-page'] as const
const named = accept('param', applicationPath, known)

app.get(all, withKey('read'), accept('query', applicationsQuery, known), async (c) => {
  const query = c.req.valid('query')
  const applications = await listApplications(c.get('db'), c.get('programId'), pageOf(query))
  return c.json(listed(applications, query.limit, asApplication, idCursorOf))
})

app.post(all, limitBody, withKey('manage'), accept('json', newApplication, known), withIdempotency, async (c) => {
  if (!canMail(c.env)) throw new ApiError('unavailable', mailIsMissing)
  const { name, email, answers = [], terms_version: terms = null } = c.req.valid('json')
  const [db, programId, token] = [c.get('db'), c.get('programId'), newToken()]
  const answered = answers.filter(({ answer }) => answer !== '')
  const created = await createOnce(() =>
    applyByKey(db, { programId, name, email, answers: answered, seen: { terms } }, token),
  )
  if (created.token_hash === (await hexHash(token))) {
    c.executionCtx.waitUntil(
      mailConfirmation(
        openDatabase(c.env),
        c.env,
        { to: email, programId, programName: created.program_name, language: created.language },
        token,
      ),
    )
  }
  return c.json({ success: true, application: asApplication(created) }, 201)
})
app.all(all, onlyMethods('GET', 'HEAD', 'POST'))

app.get(one, withKey('read'), named, async (c) => {
  const application = await readApplication(c.get('db'), c.get('programId'), c.req.valid('param').application_id)
  return c.json({ success: true, application: asApplication(application) })
})

app.patch(one, limitBody, withKey('manage'), named, accept('json', applicationDecision, known), async (c) => {
  const [db, programId, id] = [c.get('db'), c.get('programId'), c.req.valid('param').application_id]
  const { status, group_id: groupId = null, note = null, notify = false } = c.req.valid('json')
  if (status === 'approved') {
    const approved = await approveApplication(db, programId, id, groupId)
    c.executionCtx.waitUntil(mailApprovals(openDatabase(c.env), c.env, [approved]))
    c.executionCtx.waitUntil(sendSoon(c.env, approved.outbox))
    return c.json({ success: true, application: asApplication(approved.application) })
  }
  const { application, isFirst } = await rejectApplication(db, programId, id, note)
  if (notify && isFirst) c.executionCtx.waitUntil(mailRejection(openDatabase(c.env), c.env, application))
  return c.json({ success: true, application: asApplication(application) })
})

app.delete(one, withKey('manage'), named, async (c) => {
  const id = c.req.valid('param').application_id
  await deleteApplication(c.get('db'), c.get('programId'), id)
  return c.json({ success: true, deleted_id: id })
})
app.all(one, onlyMethods('GET', 'HEAD', 'PATCH', 'DELETE'))

app.get(page, withKey('read'), async (c) => {
  const read = await readJoinPage(c.get('db'), c.get('programId'))
  return c.json({ success: true, join_page: asJoinPage(read, c.env.BASE_URL) })
})

app.patch(page, limitBody, withKey('manage'), accept('json', joinPageChanges, known), async (c) => {
  const changed = await changeJoinPage(c.get('db'), c.get('programId'), c.req.valid('json'))
  return c.json({ success: true, join_page: asJoinPage(changed, c.env.BASE_URL) })
})
app.all(page, onlyMethods('GET', 'HEAD', 'PATCH'))

export default app

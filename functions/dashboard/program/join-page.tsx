import { createMiddleware } from 'hono/factory'
import * as z from 'zod/mini'
import { may } from '../../../lib/access/roles.ts'
import { ApiError } from '../../../lib/errors.ts'
import { shownHost } from '../../../lib/hosts.ts'
import { proofOf } from '../../../lib/programs/domain-proof.ts'
import {
  countHost,
  isNearService,
  programHost,
  readHost,
  removeHost,
  setHost,
  verifyHost,
} from '../../../lib/programs/hosts.ts'
import {
  addressOfPage,
  changeJoinPage,
  type JoinPage,
  type JoinPageChanges,
  joinPageChanges,
  maxAnswers,
  maxQuestions,
  readJoinPage,
} from '../../../lib/programs/join-page.ts'
import { Card, Copy, LinkButton } from '../components/blocks.tsx'
import { Field, Form, Problem } from '../components/fields.tsx'
import { redirectWith } from '../components/flash.tsx'
import { form, FormContext, FormRefusal, optionalText, useFormOf } from '../components/form.ts'
import { Day } from '../components/format.tsx'
import { ProgramPage } from '../components/layout.tsx'
import { createProgramPages, type DashboardEnv, type ProgramContext, requireProgram } from '../components/page.ts'
import { JoinCards } from '../join/join-card.tsx'

/** The settings of a program's join page, and a preview of it. */
export const pages = createProgramPages()

const pathIn = (c: ProgramContext) => `/programs/${c.get('program').id}/join-page`

pages.get('/join-page', requireProgram('program:update'), (c) => renderEditor(c))

/** Renders the editor next to a preview of the page, with changes that are not saved yet. */
async function renderEditor(c: ProgramContext, changes?: object) {
  const program = c.get('program')
  const [saved, host] = await Promise.all([readJoinPage(c.get('db'), program.id), readHost(c.get('db'), program.id)])
  const page = { ...saved, ...changes }
  return c.render(
    <ProgramPage
      title="Join page"
      current="/applications"
      lead="A public page for people who want to apply as partners."
      actions={
        may(program.roles, 'partner:list') && (
          <LinkButton href={`/programs/${program.id}/applications`} text="Applications" />
        )
      }
    >
      <Card title="Address">
        {page.slug !== null && page.is_open ? (
          <Copy text={addressOfPage(page, c.env.BASE_URL) ?? ''} label="address of the join page" />
        ) : (
          <p class="muted">The page is closed. Nobody sees it until you open it below.</p>
        )}
      </Card>
      <div class="editor">
        <Settings action={pathIn(c)} page={page} />
        <Preview page={page} isDraft={changes !== undefined} />
      </div>
      {c.env.PROGRAM_HOSTS === 'on' && (
        <OwnDomain address={`${pathIn(c)}/host`} programId={program.id} host={host} baseUrl={c.env.BASE_URL} />
      )}
    </ProgramPage>,
  )
}

/** The page as visitors see it, in the colors of its program. Its form is disabled. */
function Preview({ page, isDraft }: { page: JoinPage; isDraft: boolean }) {
  const { color, logo, name } = page.brand
  return (
    <section class="card preview stack" id="preview" aria-label="Preview" tabindex={0}>
      {color !== null && <link rel="stylesheet" href={`/assets/brand-${color.slice(1)}-preview.css`} />}
      <p class="message warn small">
        {isDraft ? 'Preview of your changes. They are not saved yet.' : 'Preview of the saved page.'}
      </p>
      <p class="brand">
        {logo !== null && <img class="logo" src={logo} alt="" decoding="async" />}
        <bdi>{name}</bdi>
      </p>
      <fieldset disabled class="bare">
        <JoinCards page={page} />
      </fieldset>
    </section>
  )
}

interface OwnDomainProps {
  address: string
  programId: number
  host: Awaited<ReturnType<typeof readHost>>
  baseUrl: string
}

function OwnDomain({ address, programId, host, baseUrl }: OwnDomainProps) {
  return (
    <Card title="Your own domain">
      <p class="muted">
        Show the join page on your own domain. Partners still sign in at {new URL(baseUrl).host}, so their accounts
        don't depend on your DNS.
      </p>
      <Form action={address} submit="Save domain" layout="inline">
        <Field
          name="host"
          label="Domain"
          value={host ? shownHost(host.host) : ''}
          placeholder="partners.example.com"
          hint="Leave empty to remove it."
          maxlength={253}
        />
      </Form>
      {host && <DomainState address={address} programId={programId} host={host} baseUrl={baseUrl} />}
    </Card>
  )
}

function DomainState({
  address,
  programId,
  host,
  baseUrl,
}: OwnDomainProps & { host: NonNullable<OwnDomainProps['host']> }) {
  const { name, value } = proofOf(programId, host.host)
  if (host.verified_at && !host.missing_since) {
    return (
      <p>
        Verified on <Day at={host.verified_at} />. Keep both DNS records.
      </p>
    )
  }
  return (
    <>
      {host.missing_since && (
        <p class="message warn">
          The TXT record has been missing since <Day at={host.missing_since} />. After three days, the page will no
          longer be available on this domain.
        </p>
      )}
      <p>
        Create these DNS records: CNAME, name <code>{host.host}</code>, value <code>{new URL(baseUrl).hostname}</code>.
        And TXT, name <code>{name}</code>, value:
      </p>
      <Copy text={value} label="TXT record" />
      <Form action={`${address}/check`} submit="Check the records" layout="inline" />
    </>
  )
}

/** Refuses domains that can't reach the service. */
const requireHosts = createMiddleware<{ Bindings: DashboardEnv }>(async (c, next) => {
  if (c.env.PROGRAM_HOSTS !== 'on')
    throw new ApiError('not_found', "This service isn't set up for the domains of programs. Ask its operator.")
  await next()
})

const hostForm = z.object({ host: z.union([z.literal(''), programHost]) })

pages.post('/join-page/host', requireProgram('program:update'), requireHosts, form(hostForm, pathIn), async (c) => {
  const [{ id: programId }, { host }] = [c.get('program'), c.req.valid('form')]
  if (host === '') {
    await removeHost(c.get('db'), programId)
    return redirectWith(c, pathIn(c), 'The page no longer has its own domain.')
  }
  if (isNearService(host, c.env.BASE_URL))
    throw new FormRefusal({ host: 'This domain belongs to the service. Enter a host of your own domain.' })
  await countHost(c.get('db'), c.get('program').workspaceId)
  await setHost(c.get('db'), programId, host)
  return redirectWith(c, pathIn(c), 'Saved. Create the DNS records, then check them.')
})

pages.post('/join-page/host/check', requireProgram('program:update'), requireHosts, async (c) => {
  const [{ id: programId }, db] = [c.get('program'), c.get('db')]
  const host = await readHost(db, programId)
  if (!host) throw new ApiError('conflict', 'The page has no domain. Enter one first.')
  const isVerified = await verifyHost(db, c.env, programId, host.host).catch((error: unknown) => {
    if (error instanceof ApiError) throw error
    return null
  })
  const answer = {
    true: 'The TXT record was found, and the domain is verified.',
    false: 'The TXT record was not found. New records can take an hour to appear.',
    null: "The DNS server didn't respond. Try again.",
  }
  return redirectWith(c, pathIn(c), answer[`${isVerified}`], isVerified ? 'good' : 'bad')
})

function Settings({ action, page }: { action: string; page: JoinPage }) {
  const rows = Math.min(page.questions.length + 2, maxQuestions)
  const answers = Math.min(page.faq.length + 2, maxAnswers)
  return (
    <FormContext.Provider value={useFormOf(action)}>
      <form method="post" action={action} class="card stack">
        <h2>Settings</h2>
        <Problem />
        <div class="row">
          <button type="submit" class="primary">
            Save
          </button>
          <button type="submit" name="preview" value="yes" formaction={`${action}#preview`}>
            Show preview
          </button>
        </div>
        <OpenField isOpen={page.is_open} />
        <YesOrNoField
          name="approves_at_once"
          label="New applicants"
          no="Need your approval"
          yes="Become partners when they confirm their address"
          value={page.approves_at_once}
          hint="People whom you rejected or whose partnership you ended always need approval."
        />
        <YesOrNoField
          name="shows_numbers"
          label="Your figures"
          no="Hidden"
          yes="Shown on the page"
          value={page.shows_numbers}
          hint="The median time from a sale to its payout, and the share of commissions that were reversed. Each is computed from your last 1,000 commissions up to the end of last month, and appears once there are 30 of at least 5 partners."
        />
        <Field
          name="slug"
          label="Address, after /join/"
          value={page.slug ?? ''}
          hint="Lowercase letters, digits and hyphens. Up to four earlier addresses redirect to the current one. Leave empty to use the program's name."
          maxlength={60}
        />
        <PitchFields page={page} />
        <YesOrNoField
          name="shows_terms"
          label="Commission and rules"
          no="Hidden"
          yes="Shown on the page"
          value={page.shows_terms}
          hint="The commission for everybody, the attribution window, the hold period and the smallest payout."
        />
        <YesOrNoField
          name="shows_calculator"
          label="Calculator"
          no="Hidden"
          yes="Shown on the page"
          value={page.shows_calculator}
          hint="Computes what a number of sales earns in a month."
        />
        <fieldset class="stack">
          <legend>Questions that you answer</legend>
          {Array.from({ length: answers }, (_, index) => (
            <AnswerFields index={index} answered={page.faq[index]} />
          ))}
          <p class="hint">At most twenty. Save to add rows. Clear a question to remove it.</p>
        </fieldset>
        <fieldset class="stack">
          <legend>Questions to applicants</legend>
          {Array.from({ length: rows }, (_, index) => (
            <QuestionFields index={index} question={page.questions[index]} />
          ))}
          <p class="hint">At most ten. Save to add rows. Clear a question to remove it.</p>
        </fieldset>
        <Field
          name="terms"
          id="page-terms"
          label="Terms"
          rows={12}
          maxlength={30_000}
          value={page.terms ?? ''}
          hint="Applicants accept these terms. Each change of the text creates a new version. Each application keeps the accepted version."
        />
        <label class="row">
          <input type="checkbox" name="self_billing" value="yes" checked={page.self_billing} />
          The terms include self-billing: you issue the partners' invoices
        </label>
        {page.terms_since && (
          <p class="muted small">
            Version {page.terms_version}, since <Day at={page.terms_since} />.
          </p>
        )}
      </form>
    </FormContext.Provider>
  )
}

interface YesOrNoFieldProps {
  name: string
  label: string
  no: string
  yes: string
  value: boolean
  hint?: string
}

function YesOrNoField({ no, yes, value, ...field }: YesOrNoFieldProps) {
  const options = [
    ['no', no],
    ['yes', yes],
  ] as const
  return <Field {...field} options={options} value={value ? 'yes' : 'no'} />
}

/** The field that opens and closes the page. */
export function OpenField({ isOpen }: { isOpen: boolean }) {
  return <YesOrNoField name="is_open" label="The page" no="Closed" yes="Open to everybody" value={isOpen} />
}

/** The headline and the text of the page. */
export function PitchFields({ page }: { page: Pick<JoinPage, 'headline' | 'intro' | 'program_name'> }) {
  return (
    <>
      <Field
        name="headline"
        label="Headline"
        value={page.headline ?? ''}
        placeholder={`Become a partner of ${page.program_name}`}
        maxlength={120}
      />
      <Field
        name="intro"
        label="Text"
        rows={8}
        maxlength={5000}
        value={page.intro ?? ''}
        hint="Plain text. An empty line starts a paragraph; lines that start with “- ” become a list."
      />
    </>
  )
}

function AnswerFields({ index, answered }: { index: number; answered: JoinPage['faq'][number] | undefined }) {
  const name = `faq_${index}`
  return (
    <div class="stack tight">
      <Field name={name} label={`Your question ${index + 1}`} maxlength={200} value={answered?.question ?? ''} />
      <Field
        name={`${name}_answer`}
        label={`Your answer ${index + 1}`}
        rows={2}
        maxlength={2000}
        value={answered?.answer ?? ''}
      />
    </div>
  )
}

interface QuestionFieldsProps {
  index: number
  question: JoinPage['questions'][number] | undefined
}

function QuestionFields({ index, question }: QuestionFieldsProps) {
  const name = `question_${index}`
  return (
    <div class="fields">
      <Field name={name} label={`Question ${index + 1}`} maxlength={200} value={question?.label ?? ''} />
      <Field
        name={`${name}_kind`}
        label={`Answer ${index + 1}`}
        options={[
          ['short', 'Short'],
          ['short required', 'Short, required'],
          ['long', 'Long'],
          ['long required', 'Long, required'],
        ]}
        value={question ? `${question.type}${question.required ? ' required' : ''}` : 'short'}
      />
    </div>
  )
}

/** The value of a `YesOrNoField`. */
export const yesOrNo = z.enum(['yes', 'no'], 'Choose one.')
const settingsForm = z.looseObject({
  is_open: yesOrNo,
  approves_at_once: yesOrNo,
  shows_numbers: z.prefault(yesOrNo, 'no'),
  shows_terms: z.prefault(yesOrNo, 'yes'),
  shows_calculator: z.prefault(yesOrNo, 'yes'),
  slug: optionalText.check(z.trim()),
  headline: optionalText,
  intro: optionalText,
  terms: optionalText,
  self_billing: optionalText,
  preview: z.optional(z.string()),
})

/** Reads the changes of a submitted editor. Throws the errors of its fields. */
function changesIn(typed: z.output<typeof settingsForm>): JoinPageChanges {
  const { slug, headline, intro, terms, self_billing: bills, ...fields } = typed
  const textOf = (name: string) => {
    const text = fields[name]
    return typeof text === 'string' ? text.trim() : ''
  }
  const questions = Array.from({ length: maxQuestions }, (_, index) => {
    const [type = '', required] = textOf(`question_${index}_kind`).split(' ')
    return { index, label: textOf(`question_${index}`), type: type || 'short', required: required !== undefined }
  }).filter(({ label }) => label !== '')
  const faq = Array.from({ length: maxAnswers }, (_, index) => ({
    index,
    question: textOf(`faq_${index}`),
    answer: textOf(`faq_${index}_answer`),
  })).filter(({ question }) => question !== '')
  const changes = {
    is_open: fields.is_open === 'yes',
    approves_at_once: fields.approves_at_once === 'yes',
    shows_numbers: fields.shows_numbers === 'yes',
    shows_terms: fields.shows_terms === 'yes',
    shows_calculator: fields.shows_calculator === 'yes',
    ...(slug !== '' && { slug }),
    ...pitchIn({ headline, intro }),
    terms: terms.trim() || null,
    self_billing: bills === 'yes',
    questions: questions.map(({ label, type, required }) => ({ label, type, required })),
    faq: faq.map(({ question, answer }) => ({ question, answer })),
  }
  return checkChanges(changes, (list, place) => `${list}_${(list === 'faq' ? faq : questions)[place]?.index ?? 0}`)
}

/** Converts the fields of `PitchFields`. */
export const pitchIn = ({ headline, intro }: { headline: string; intro: string }) => ({
  headline: headline.trim() || null,
  intro: intro.trim() || null,
})

/** Checks changes of the page. Throws the errors of the form's fields. `rowOf` returns the name of the field of a row in a list. */
export function checkChanges(
  changes: object,
  rowOf = (list: string, place: number) => `${list}_${place}`,
): JoinPageChanges {
  const parsed = joinPageChanges.safeParse(changes)
  if (parsed.success) return parsed.data
  const errors = parsed.error.issues.map(({ path: [field, row, part], message }) => {
    const text = message.startsWith('must') ? `This ${message}.` : message
    if (field !== 'questions' && field !== 'faq') return [String(field), text]
    const name = rowOf(field === 'questions' ? 'question' : 'faq', typeof row === 'number' ? row : 0)
    return part === 'answer' ? [`${name}_answer`, answerRule] : [name, text]
  })
  throw new FormRefusal(Object.fromEntries(errors))
}

const answerRule = 'Answer the question, in up to 2,000 characters of plain text.'

// With `preview`, the page shows the changes and keeps the typed values, but nothing is stored.
pages.post('/join-page', requireProgram('program:update'), form(settingsForm, pathIn, 'slug'), async (c) => {
  const typed = c.req.valid('form')
  const changes = changesIn(typed)
  if (typed.preview !== undefined) {
    const changed = Object.entries(changes).filter(([, value]) => value !== undefined)
    c.header('Content-Location', pathIn(c))
    return await renderEditor(c, Object.fromEntries(changed))
  }
  const { is_open: isOpen } = await changeJoinPage(c.get('db'), c.get('program').id, changes)
  return redirectWith(c, pathIn(c), isOpen ? 'Saved. The page is open.' : 'Saved. The page is closed. Nobody sees it.')
})

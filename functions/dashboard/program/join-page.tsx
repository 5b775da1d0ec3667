import { createMiddleware } from 'hono/factory'
import * as z from 'zod/mini'
import { may } from '../../../lib/access/roles.ts'
import { ApiError } from '../../../lib/errors.ts'
import { shownHost } from '../../../lib/hosts.ts'
import { proofOf } from '../../../lib/programs/domain-proof.ts'
import { isNearService, programHost, readHost, removeHost, setHost, verifyHost } from '../../../lib/programs/hosts.ts'
import {
  addressOfPage,
  changeJoinPage,
  type JoinPage,
  joinPageChanges,
  maxQuestions,
  readJoinPage,
} from '../../../lib/programs/join-page.ts'
import { Card, Copy, LinkButton } from '../components/blocks.tsx'
import { Field, Form } from '../components/fields.tsx'
import { redirectWith } from '../components/flash.tsx'
import { form, FormRefusal, optionalText } from '../components/form.ts'
import { Day } from '../components/format.tsx'
import { PlainPage, ProgramPage } from '../components/layout.tsx'
import { createProgramPages, type DashboardEnv, type ProgramContext, requireProgram } from '../components/page.ts'
import { JoinCard } from '../join/join-card.tsx'

/** The settings of a program's join page, and a preview of it. */
export const pages = createProgramPages()

const pathIn = (c: ProgramContext) => `/programs/${c.get('program').id}/join-page`

pages.get('/join-page', requireProgram('program:update'), async (c) => {
  const program = c.get('program')
  const [page, host] = await Promise.all([readJoinPage(c.get('db'), program.id), readHost(c.get('db'), program.id)])
  return c.render(
    <ProgramPage
      title="Join page"
      current="/applications"
      lead="A public page for people who want to apply as partners."
      actions={
        <>
          <LinkButton href={`${pathIn(c)}/preview`} text="Preview" />
          {may(program.roles, 'partner:list') && (
            <LinkButton href={`/programs/${program.id}/applications`} text="Applications" />
          )}
        </>
      }
    >
      <Card title="Address">
        {page.slug !== null && page.is_open ? (
          <Copy text={addressOfPage(page, c.env.BASE_URL) ?? ''} label="address of the join page" />
        ) : (
          <p class="muted">The page is closed. Nobody sees it until you open it below.</p>
        )}
      </Card>
      <Settings action={pathIn(c)} page={page} />
      {c.env.PROGRAM_HOSTS === 'on' && (
        <OwnDomain address={`${pathIn(c)}/host`} programId={program.id} host={host} baseUrl={c.env.BASE_URL} />
      )}
    </ProgramPage>,
  )
})

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

/** Refuses domains that would never reach the service. */
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
  return (
    <Card title="Settings">
      <Form action={action} submit="Save">
        <Field
          name="is_open"
          label="The page"
          options={[
            ['no', 'Closed'],
            ['yes', 'Open to everybody'],
          ]}
          value={page.is_open ? 'yes' : 'no'}
        />
        <Field
          name="approves_at_once"
          label="New applicants"
          options={[
            ['no', 'Need your approval'],
            ['yes', 'Become partners when they confirm their address'],
          ]}
          value={page.approves_at_once ? 'yes' : 'no'}
          hint="People whom you rejected or whose partnership you ended always need approval."
        />
        <Field
          name="shows_numbers"
          label="Your figures"
          options={[
            ['no', 'Hidden'],
            ['yes', 'Shown on the page'],
          ]}
          value={page.shows_numbers ? 'yes' : 'no'}
          hint="The median time from a sale to its payout, and the share of commissions that were reversed. Each is computed from your last 1,000 commissions and appears once there are 30."
        />
        <Field
          name="slug"
          label="Address, after /join/"
          value={page.slug ?? ''}
          hint="Lowercase letters, digits and hyphens. Up to four earlier addresses redirect to the current one. Leave empty to use the program's name."
          maxlength={60}
        />
        <Field
          name="logo_url"
          label="Logo address"
          type="url"
          inputmode="url"
          placeholder="https://…"
          value={page.logo_url ?? ''}
          hint="An image that visitors load from your site."
          maxlength={1000}
        />
        <Field
          name="intro"
          label="Text"
          rows={8}
          maxlength={5000}
          value={page.intro ?? ''}
          hint="Plain text. An empty line starts a paragraph; lines that start with “- ” become a list."
        />
        <fieldset class="stack">
          <legend>Questions</legend>
          {Array.from({ length: rows }, (_, index) => (
            <QuestionFields index={index} question={page.questions[index]} />
          ))}
          <p class="hint">At most ten. Save to add rows. Clear a question to remove it.</p>
        </fieldset>
        <Field
          name="terms"
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
      </Form>
    </Card>
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

const choice = z.enum(['yes', 'no'], 'Choose one.')
const settingsForm = z.looseObject({
  is_open: choice,
  approves_at_once: choice,
  shows_numbers: z.prefault(choice, 'no'),
  slug: optionalText.check(z.trim()),
  logo_url: optionalText.check(z.trim()),
  intro: optionalText,
  terms: optionalText,
  self_billing: optionalText,
})

pages.post('/join-page', requireProgram('program:update'), form(settingsForm, pathIn, 'slug'), async (c) => {
  const { id: programId } = c.get('program')
  const {
    is_open: open,
    approves_at_once: atOnce,
    shows_numbers: shown,
    slug,
    logo_url: logo,
    intro,
    terms,
    self_billing: bills,
    ...fields
  } = c.req.valid('form')
  const rows = Array.from({ length: maxQuestions }, (_, index) => {
    const [label, kind] = [fields[`question_${index}`], fields[`question_${index}_kind`]]
    const [type = '', required] = typeof kind === 'string' ? kind.split(' ') : []
    return { index, label: typeof label === 'string' ? label.trim() : '', type, required: required !== undefined }
  }).filter(({ label }) => label !== '')
  const parsed = joinPageChanges.safeParse({
    is_open: open === 'yes',
    approves_at_once: atOnce === 'yes',
    shows_numbers: shown === 'yes',
    ...(slug !== '' && { slug }),
    logo_url: logo || null,
    intro: intro.trim() || null,
    terms: terms.trim() || null,
    self_billing: bills === 'yes',
    questions: rows.map(({ label, type, required }) => ({ label, type: type || 'short', required })),
  })
  if (!parsed.success) {
    const errors = Object.fromEntries(
      parsed.error.issues.map(({ path: [field, row], message }) => {
        const question = typeof row === 'number' ? rows[row]?.index : rows[0]?.index
        return [field === 'questions' ? `question_${question ?? 0}` : String(field), sentence(message)]
      }),
    )
    throw new FormRefusal(errors)
  }
  const { is_open: isOpen } = await changeJoinPage(c.get('db'), programId, parsed.data)
  return redirectWith(c, pathIn(c), isOpen ? 'Saved. The page is open.' : 'Saved. The page is closed. Nobody sees it.')
})

/** Turns the rule of a field into a sentence. */
const sentence = (rule: string) => (rule.startsWith('must') ? `This ${rule}.` : rule)

pages.get('/join-page/preview', requireProgram('program:update'), async (c) => {
  const page = await readJoinPage(c.get('db'), c.get('program').id)
  if (page.logo_url !== null) c.set('loads', { image: page.logo_url })
  return c.render(
    <PlainPage title="Preview of the join page" heading={null}>
      <p class="message warn">
        This is a preview{page.is_open ? '' : ' of a closed page'}. <a href={pathIn(c)}>Back to its settings</a>
      </p>
      <JoinCard page={page} />
    </PlainPage>,
  )
})

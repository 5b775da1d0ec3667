import * as z from 'zod/mini'
import { may } from '../../../lib/access/roles.ts'
import {
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
import { createProgramPages, type ProgramContext, requireProgram } from '../components/page.ts'
import { JoinCard } from '../join/join-card.tsx'

/** The settings of a program's join page, and a preview of it. */
export const pages = createProgramPages()

const pathIn = (c: ProgramContext) => `/programs/${c.get('program').id}/join-page`

pages.get('/join-page', requireProgram('program:update'), async (c) => {
  const program = c.get('program')
  const page = await readJoinPage(c.get('db'), program.id)
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
          <Copy text={`${c.env.BASE_URL}/join/${page.slug}`} label="address of the join page" />
        ) : (
          <p class="muted">The page is closed. Nobody sees it until you open it below.</p>
        )}
      </Card>
      <Settings action={pathIn(c)} page={page} />
    </ProgramPage>,
  )
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
          hint="Applicants accept these terms. A new text is a new version. Each application keeps the accepted version."
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
        This is a preview{page.is_open ? '' : ' of a page that is closed'}. <a href={pathIn(c)}>Back to its settings</a>
      </p>
      <JoinCard page={page} />
    </PlainPage>,
  )
})

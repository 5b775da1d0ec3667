import type { PropsWithChildren } from 'hono/jsx'
import * as z from 'zod/mini'
import { ApiError } from '../../../lib/errors.ts'
import { readBrand } from '../../../lib/programs/brand.ts'
import { changeJoinPage, joinPageChanges, readJoinPage } from '../../../lib/programs/join-page.ts'
import { readProgram } from '../../../lib/programs/programs.ts'
import { shownHost } from '../../../lib/hosts.ts'
import { processorTitles } from '../../../lib/processors/processors.ts'
import { Card, LinkButton } from '../components/blocks.tsx'
import { Field, Form, Hidden } from '../components/fields.tsx'
import { redirectWith } from '../components/flash.tsx'
import { form, FormRefusal, optionalText } from '../components/form.ts'
import { ProgramPage } from '../components/layout.tsx'
import { createProgramPages, type ProgramContext, requireProgram } from '../components/page.ts'
import { setUpUses } from './api-keys.tsx'
import { BrandForms } from './brand.tsx'
import { connectionsAddress } from './connections.tsx'
import { TermFields } from './program-form.tsx'
import { settingsTab } from './settings-tabs.ts'
import { afterStep, inStep, stepAddress, type WizardStep, wizardSteps } from './wizard-steps.ts'

/** The wizard for a new program. Its steps use the forms of the settings. */
export const pages = createProgramPages()

const allSteps = [{ name: 'program', title: 'Program' }, ...wizardSteps] as const

/** The steps of the wizard, with links once the program exists. */
export function Progress({ current, programId }: { current: 'program' | WizardStep; programId?: number }) {
  const place = allSteps.findIndex(({ name }) => name === current)
  return (
    <nav aria-label={`Step ${place + 1} of ${allSteps.length}`}>
      <ol class="progress">
        {allSteps.map(({ name, title }, index) => (
          <li class={index < place ? 'done' : index === place ? 'now' : ''}>
            {programId === undefined || name === 'program' ? (
              <span aria-current={index === place ? 'step' : undefined}>{title}</span>
            ) : (
              <a href={stepAddress(programId, name)} aria-current={index === place ? 'step' : undefined}>
                {title}
              </a>
            )}
          </li>
        ))}
      </ol>
    </nav>
  )
}

interface StepPageProps {
  step: WizardStep
  programId: number
  lead: string
}

function StepPage({ step, programId, lead, children }: PropsWithChildren<StepPageProps>) {
  const title = wizardSteps.find(({ name }) => name === step)?.title ?? ''
  const skip = <LinkButton href={afterStep(programId, step)} text="Skip" />
  return (
    <ProgramPage title={title} current="/check" lead={lead} actions={skip}>
      <Progress current={step} programId={programId} />
      {children}
    </ProgramPage>
  )
}

const idOf = (c: ProgramContext) => c.get('program').id

pages.get('/start/rate', requireProgram('program:update'), async (c) => {
  const programId = idOf(c)
  const settings = await readProgram(c.get('db'), programId)
  if (!settings) throw new ApiError('not_found', 'There is no such program.')
  const { name, domain, currency, language } = settings
  return c.render(
    <StepPage
      step="rate"
      programId={programId}
      lead="The commission of every partner. Groups and partners can have other terms later."
    >
      <Card>
        <Form action={inStep(`/programs/${programId}/settings`, 'rate')} submit="Save and continue">
          <Hidden fields={{ name, domain: shownHost(domain), currency, language: language ?? '' }} />
          <TermFields settings={settings} />
        </Form>
      </Card>
    </StepPage>,
  )
})

pages.get('/start/brand', requireProgram('program:update'), async (c) => {
  const program = c.get('program')
  return c.render(
    <StepPage step="brand" programId={program.id} lead="How partners see you on their pages and in e-mails.">
      <BrandForms program={program} brand={await readBrand(c.get('db'), program.id)} step="brand" />
    </StepPage>,
  )
})

pages.get('/start/join-page', requireProgram('program:update'), async (c) => {
  const programId = idOf(c)
  const page = await readJoinPage(c.get('db'), programId)
  const { emailVerified } = c.get('viewer').user
  return c.render(
    <StepPage
      step="join-page"
      programId={programId}
      lead="A public page with your commission, a calculator and a form to apply."
    >
      <Card>
        <Form action={stepAddress(programId, 'join-page')} submit="Save and continue">
          {emailVerified ? (
            <Field
              name="is_open"
              label="The page"
              options={[
                ['yes', 'Open to everybody'],
                ['', 'Closed for now'],
              ]}
              value={page.slug === null || page.is_open ? 'yes' : ''}
            />
          ) : (
            <p class="muted">You can open the page once you have confirmed your e-mail address.</p>
          )}
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
            rows={5}
            maxlength={5000}
            value={page.intro ?? ''}
            hint="Plain text. Who are your customers, and why do they buy?"
          />
        </Form>
        <p class="muted small">
          Questions, terms and a preview are under <a href={`/programs/${programId}/join-page`}>Join page</a>.
        </p>
      </Card>
    </StepPage>,
  )
})

const joinForm = z.object({ is_open: optionalText, headline: optionalText, intro: optionalText })
const joinStep = (c: ProgramContext) => stepAddress(idOf(c), 'join-page')

pages.post('/start/join-page', requireProgram('program:update'), form(joinForm, joinStep), async (c) => {
  const { is_open: open, headline, intro } = c.req.valid('form')
  const { success, data, error } = joinPageChanges.safeParse({
    is_open: open === 'yes',
    headline: headline.trim() || null,
    intro: intro.trim() || null,
  })
  if (!success) throw new FormRefusal({ [String(error.issues[0]?.path[0])]: 'Use plain text.' })
  await changeJoinPage(c.get('db'), idOf(c), data)
  return redirectWith(c, afterStep(idOf(c), 'join-page'), 'Saved.')
})

pages.get('/start/sales', requireProgram('program:update'), (c) => {
  const programId = idOf(c)
  return c.render(
    <StepPage
      step="sales"
      programId={programId}
      lead="Sales come from your payment processor or from your server. Choose one."
    >
      <Card title="Your project">
        <p class="muted">One command sets up your project: the tracker, leads, and sales from your server.</p>
        <Form action={`/programs/${programId}/check/key`} submit="Show the command with a new key">
          <Field name="key_scope" label="Permissions" options={setUpUses} />
        </Form>
      </Card>
      <Card title="Payment processor">
        <p class="muted">If customers pay through one of these, sales and refunds arrive on their own.</p>
        <div class="row">
          <LinkButton href={settingsTab(programId, 'payments')} text="Connect Stripe" />
          <LinkButton href={connectionsAddress(programId)} text={`Connect ${processorTitles('disjunction')}`} />
        </div>
      </Card>
    </StepPage>,
  )
})

pages.get('/start/partner', requireProgram('partner:manage'), (c) => {
  const programId = idOf(c)
  return c.render(
    <StepPage
      step="partner"
      programId={programId}
      lead="Partners get a link at once, and see their earnings once they accept your invitation."
    >
      <Card>
        <Form action={`/programs/${programId}/partners`} submit="Add partner">
          <Field name="name" label="Name" required />
          <Field
            name="email"
            label="E-mail"
            type="email"
            hint="They get an invitation. Leave empty to invite them later."
          />
          <Hidden fields={{ code: '' }} />
        </Form>
      </Card>
    </StepPage>,
  )
})

import type { PropsWithChildren } from 'hono/jsx'
import * as z from 'zod/mini'
import { ApiError } from '../../../lib/errors.ts'
import { readBrand } from '../../../lib/programs/brand.ts'
import { changeJoinPage, readJoinPage } from '../../../lib/programs/join-page.ts'
import { readProgram } from '../../../lib/programs/programs.ts'
import { shownHost } from '../../../lib/hosts.ts'
import { processorTitles } from '../../../lib/processors/processors.ts'
import { Card, LinkButton } from '../components/blocks.tsx'
import { Field, Form, Hidden } from '../components/fields.tsx'
import { redirectWith } from '../components/flash.tsx'
import { form, optionalText } from '../components/form.ts'
import { ProgramPage } from '../components/layout.tsx'
import { createProgramPages, type ProgramContext, requireProgram } from '../components/page.ts'
import { useRequest } from '../components/request.ts'
import { setUpUses } from './api-keys.tsx'
import { BrandForms } from './brand.tsx'
import { connectionsAddress } from './connections.tsx'
import { checkChanges, OpenField, PitchFields, pitchIn, yesOrNo } from './join-page.tsx'
import { NewPartnerFields } from './partners.tsx'
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
    <div role="group" aria-label={`Step ${place + 1} of ${allSteps.length}`}>
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
    </div>
  )
}

interface StepPageProps {
  step: WizardStep
  lead: string
}

function StepPage({ step, lead, children }: PropsWithChildren<StepPageProps>) {
  const c: ProgramContext = useRequest()
  const programId = idOf(c)
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
  const settings = await readProgram(c.get('db'), idOf(c))
  if (!settings) throw new ApiError('not_found', 'There is no such program.')
  const { name, domain, currency, language } = settings
  return c.render(
    <StepPage step="rate" lead="The commission of every partner. Groups and partners can have other terms later.">
      <Card>
        <Form action={inStep(`/programs/${idOf(c)}/settings`, 'rate')} submit="Save and continue">
          <Hidden fields={{ name, domain: shownHost(domain), currency, language: language ?? '' }} />
          <TermFields settings={settings} />
        </Form>
      </Card>
    </StepPage>,
  )
})

pages.get('/start/brand', requireProgram('program:update'), async (c) =>
  c.render(
    <StepPage step="brand" lead="How partners see you on their pages and in e-mails.">
      <BrandForms program={c.get('program')} brand={await readBrand(c.get('db'), idOf(c))} step="brand" />
    </StepPage>,
  ),
)

pages.get('/start/join-page', requireProgram('program:update'), async (c) => {
  const page = await readJoinPage(c.get('db'), idOf(c))
  return c.render(
    <StepPage step="join-page" lead="A public page with your commission, a calculator and a form to apply.">
      <Card>
        <Form action={joinStep(c)} submit="Save and continue">
          {c.get('viewer').user.emailVerified ? (
            <OpenField isOpen={page.slug === null || page.is_open} />
          ) : (
            <p class="muted">You can open the page once you have confirmed your e-mail address.</p>
          )}
          <PitchFields page={page} />
        </Form>
        <p class="muted small">
          Questions, terms and a preview are under <a href={`/programs/${idOf(c)}/join-page`}>Join page</a>.
        </p>
      </Card>
    </StepPage>,
  )
})

const joinForm = z.object({ is_open: z.prefault(yesOrNo, 'no'), headline: optionalText, intro: optionalText })
const joinStep = (c: ProgramContext) => stepAddress(idOf(c), 'join-page')

pages.post('/start/join-page', requireProgram('program:update'), form(joinForm, joinStep), async (c) => {
  const { is_open: open, ...pitch } = c.req.valid('form')
  const changes = checkChanges({ is_open: open === 'yes', ...pitchIn(pitch) })
  await changeJoinPage(c.get('db'), idOf(c), changes)
  return redirectWith(c, afterStep(idOf(c), 'join-page'), 'Saved.')
})

pages.get('/start/sales', requireProgram('program:update'), (c) => {
  const programId = idOf(c)
  return c.render(
    <StepPage step="sales" lead="Sales come from your payment processor or from your server. Choose one.">
      <Card title="Your project">
        <p class="muted">One command sets up your project: the tracker, leads, and sales from your server.</p>
        <Form action={inStep(`/programs/${programId}/check/key`, 'sales')} submit="Show the command with a new key">
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

pages.get('/start/partner', requireProgram('partner:manage'), (c) =>
  c.render(
    <StepPage
      step="partner"
      lead="Partners get a link at once, and see their earnings once they accept your invitation."
    >
      <Card>
        <Form action={`/programs/${idOf(c)}/partners`} submit="Add partner">
          <NewPartnerFields />
        </Form>
      </Card>
    </StepPage>,
  ),
)

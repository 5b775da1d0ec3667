import * as z from 'zod/mini'
import { countAttempts } from '../../../lib/access/attempts.ts'
import { countedNetwork } from '../../../lib/access/counted-address.ts'
import { createTask, isProof } from '../../../lib/access/proof-of-work.ts'
import { passesChallenge, turnstileField } from '../../../lib/access/turnstile.ts'
import { clientAddress } from '../../../lib/api/rate-limits.ts'
import { openDatabase } from '../../../lib/database.ts'
import { ApiError } from '../../../lib/errors.ts'
import { canMail, mailIsMissing } from '../../../lib/mail.ts'
import { nameField } from '../../../lib/names.ts'
import { sendSoon } from '../../../lib/notifications/outbox.ts'
import { mailApprovals, mailConfirmation, mailOutcome } from '../../../lib/programs/application-mails.ts'
import {
  type Applied,
  apply,
  type ConfirmableApplication,
  confirmApplication,
  findApplication,
  withdrawApplication,
} from '../../../lib/programs/applications.ts'
import { checkAnswers, findJoinPage, type JoinPage } from '../../../lib/programs/join-page.ts'
import { keepPartnerLanguage } from '../../../lib/programs/partnerships.ts'
import { tokenInQuery } from '../components/address.ts'
import { Card, Facts } from '../components/blocks.tsx'
import { PostButton } from '../components/fields.tsx'
import { redirectWith } from '../components/flash.tsx'
import { form, FormRefusal, optionalText, refuseForm } from '../components/form.ts'
import { PlainPage } from '../components/layout.tsx'
import { createPages, languageOf, type PageContext } from '../components/page.ts'
import { bdi, type PageTexts, Text, textsIn, useTexts } from '../components/text.tsx'
import { busy, JoinCards, titleOf } from './join-card.tsx'
import { Answers, PlainText } from './plain-text.tsx'

/** The public page for applications to a program, and the page that the confirmation link opens. */
export const pages = createPages()

/** The maximum number of applications from one address in a quarter of an hour. */
const applicationsPerAddress = 20

/** A signed-in person with a verified address applies with their account. */
function applicantOf(c: PageContext) {
  const viewer = c.get('viewer')
  if (!viewer?.user.emailVerified) return undefined
  const { id, name, email } = viewer.user
  return { id, email, name: viewer.partner?.name ?? name }
}

const noPage = "There is no page with this name, or the program doesn't accept applications at the moment."

async function pageOf(c: PageContext) {
  const host = c.get('host')
  const page = await findJoinPage(c.get('db'), c.req.param('slug') ?? host?.slug ?? '')
  if (!page || (host && host.program_id !== page.program_id)) throw new ApiError('not_found', noPage)
  c.set('texts', textsIn(languageOf(c, page.language)))
  c.set('brand', page.brand)
  return page
}

pages.get('/', async (c, next) => (c.get('host') ? await renderJoinPage(c, await pageOf(c)) : await next()))

pages.get('/join/:slug', async (c) => {
  const page = await pageOf(c)
  if (page.slug !== c.req.param('slug')) return c.redirect(`/join/${page.slug}`, 302)
  return await renderJoinPage(c, page)
})

async function renderJoinPage(c: PageContext, page: JoinPage) {
  const siteKey = c.env.TURNSTILE_SITE_KEY || undefined
  c.set('isChallenged', siteKey !== undefined)
  return c.render(
    <PlainPage title={titleOf(page, c.get('texts'))} heading={null} isWide>
      <JoinCards
        page={page}
        action={`/join/${page.slug}`}
        applicant={applicantOf(c)}
        siteKey={siteKey}
        task={createTask(c.env, purposeOf(c, page))}
        calculated={c.req.query()}
      />
    </PlainPage>,
  )
}

pages.get('/join/:slug/sent', async (c) => {
  const { program_name: name } = await pageOf(c)
  const { t } = c.get('texts')
  return c.render(
    <PlainPage title={t('Check your e-mail')}>
      <p>
        <Text
          of="We sent you an e-mail about your application to <bdi>{name}</bdi>. Open the link in it to confirm your application."
          name={name}
          bdi={bdi}
        />
      </p>
      <p class="muted small">
        {t("If it doesn't arrive within a few minutes, check your spam folder, and then apply again.")}
      </p>
    </PlainPage>,
  )
})

/** The purpose of a proof of work that the page may ask for. */
const purposeOf = (c: PageContext, { program_id: programId }: JoinPage) => ({
  programId,
  network: countedNetwork(c.req.header('cf-connecting-ip') ?? null),
})

const joinForm = z.looseObject({
  name: nameField('Enter your name.'),
  email: optionalText,
  proof: optionalText,
  version: z.string().check(z.regex(/^\d{1,9}$/)),
  terms: optionalText,
})
const address = z.string().check(z.trim(), z.toLowerCase(), z.maxLength(320), z.email())
const pagePath = (c: { req: PageContext['req'] }) => `/join/${encodeURIComponent(c.req.param('slug') ?? '')}`

pages.post('/join/:slug', form(joinForm, pagePath), async (c) => {
  const page = await pageOf(c)
  const back = pagePath(c)
  if (!canMail(c.env)) throw new ApiError('unavailable', mailIsMissing)
  const counted = clientAddress(c)
  const key = `application from ${counted}`
  if (counted && ((await countAttempts(openDatabase(c.env), [key])).get(key) ?? 0) > applicationsPerAddress)
    throw new ApiError('rate_limited', 'Too many applications from your network. Wait 15 minutes, then try again.')
  const { name, email, proof, version, terms, ...typed } = c.req.valid('form')
  const textOf = (field: string) => {
    const value = typed[field]
    return typeof value === 'string' ? value : ''
  }

  const applicant = applicantOf(c)
  const parsed = address.safeParse(email)
  const { answers, errors: wrong } = checkAnswers(page.questions, (_, index) => textOf(`answer_${index}`))
  const errors = {
    ...(!applicant && !parsed.success && { email: 'Enter your e-mail address.' }),
    ...Object.fromEntries(wrong.map(({ index, message }) => [`answer_${index}`, message])),
    ...(page.terms !== null && terms !== 'accepted' && { terms: 'Accept the terms to apply.' }),
  }
  if (Number(version) !== page.version) return await refuseForm(c, back, { problem: changed })
  if (Object.keys(errors).length > 0) throw new FormRefusal(errors)
  if (!(await passesChallenge(c.env, textOf(turnstileField), c.req.header('cf-connecting-ip') ?? null)))
    return await refuseForm(c, back, { problem: 'The robot check failed. Try again.' })

  const to = applicant?.email ?? parsed.data ?? ''
  const purpose = purposeOf(c, page)
  const isProven = await isProof(openDatabase(c.env), c.env, purpose, proof)
  const applied = await apply(c.get('db'), {
    programId: page.program_id,
    userId: applicant?.id ?? null,
    email: to,
    name,
    answers,
    seen: { version: page.version },
    network: purpose.network,
    isProven,
  })
  c.executionCtx.waitUntil(sendSoon(c.env, applied.outbox))
  if (applied.outcome === 'changed') return await refuseForm(c, back, { problem: changed })
  if (['closed', 'unverified'].includes(applied.outcome)) throw new ApiError('not_found', noPage)
  if (applied.outcome === 'network') throw new ApiError('rate_limited', enoughOfNetwork)
  const isFull = ['source', 'workspace'].includes(applied.outcome)
  if (isFull && !isProven && !c.env.TURNSTILE_SITE_KEY) return await refuseForm(c, back, { problem: busy })
  if (isFull) throw new ApiError('rate_limited', enoughOfProgram)
  if (applicant) {
    if (page.language === null) await keepPartnerLanguage(c.get('db'), applicant.id, c.get('texts').language)
    return redirectWith(c, '/partner/applications', ownOutcome(applied, page.program_name, c.get('texts')))
  }
  // The mail is sent after the response, so that the time of the response doesn't reveal whether the address has an account.
  c.executionCtx.waitUntil(notifyApplicant(c, page, to, applied))
  return c.redirect(`/join/${page.slug}/sent`, 303)
})

const enoughOfNetwork =
  'Your network has sent the maximum number of applications for today. Sign in to apply with your account, or try again tomorrow.'
const enoughOfProgram =
  'This program has received the maximum number of applications for today. Sign in to apply with your account, or try again tomorrow.'
const changed = 'The questions or the terms have changed. Read them again, then apply.'

async function notifyApplicant(c: PageContext, page: JoinPage, to: string, applied: Applied): Promise<void> {
  if (applied.outcome === 'recipient') return
  const db = openDatabase(c.env)
  const { language } = c.get('texts')
  const recipient = { to, programId: page.program_id, programName: page.program_name, language }
  if (applied.outcome === 'applied') await mailConfirmation(db, c.env, recipient, applied.token)
  else await mailOutcome(db, c.env, recipient, applied)
}

/** The message to an applicant with an account. */
function ownOutcome({ outcome, againAt }: Applied, name: string, { t, day }: PageTexts): string {
  if (outcome === 'approved') return t('You are now a partner of {name}. Your link is on the Links page.', { name })
  if (outcome === 'partner') return t('You are already a partner of {name}.', { name })
  if (outcome === 'rejected')
    return t('{name} did not accept your earlier application. You can apply again from {day}.', {
      name,
      day: againAt === null ? '' : day(againAt),
    })
  return t('Your application to {name} is waiting for review. You will get an e-mail when it is approved.', { name })
}

pages.get('/application', async (c) => {
  const token = tokenInQuery(c)
  const application = await findApplication(c.get('db'), token)
  if (application) {
    c.set('texts', textsIn(languageOf(c, application.language)))
    c.set('brand', application.brand)
  }
  const { t } = c.get('texts')
  return c.render(
    <PlainPage title={t('Your application')} heading={null}>
      <Card>
        {application ? (
          <OneApplication application={application} token={token} />
        ) : (
          <>
            <h1>{t('This link no longer works')}</h1>
            <p>
              {t(
                "The application wasn't confirmed within a week, was withdrawn, or you confirmed another one. You can apply again.",
              )}
            </p>
          </>
        )}
      </Card>
    </PlainPage>,
  )
})

function OneApplication({ application, token }: { application: ConfirmableApplication; token: string }) {
  const { program_name: program, status, name, email, answers, terms } = application
  const here = `?token=${encodeURIComponent(token)}`
  const { t } = useTexts()
  return (
    <>
      <h1>
        <Text of="Your application to <bdi>{name}</bdi>" name={program} bdi={bdi} />
      </h1>
      <State status={status} program={program} />
      <Facts facts={{ [t('Name')]: name, [t('E-mail')]: email }} />
      <Answers answers={answers} />
      {terms !== null && (
        <details class="more">
          <summary>{t('The terms that you accept')}</summary>
          <PlainText text={terms} />
        </details>
      )}
      {status === 'unverified' && (
        <PostButton action={`/application${here}`} class="primary wide-button" text={t('Yes, I apply')} />
      )}
      {(status === 'unverified' || status === 'waiting') && (
        <PostButton
          action={`/application/withdraw${here}`}
          class="danger"
          confirm={t('Withdraw the application? We will delete all its data.')}
          text={status === 'unverified' ? t("This wasn't me. Delete it") : t('Withdraw and delete it')}
        />
      )}
    </>
  )
}

function State({ status, program }: { status: string; program: string }) {
  const { t } = useTexts()
  const name = program
  const texts: Record<string, string> = {
    unverified: t("It hasn't been sent yet. Is this your application?"),
    waiting: t('It is waiting for review by {name}. You will get an e-mail when it is approved.', { name }),
    approved: t('It was approved, and we sent you an e-mail about your links.'),
    rejected: t('{name} did not accept it. You can apply again thirty days after the decision.', { name }),
  }
  return <p>{texts[status]}</p>
}

pages.post('/application', async (c) => {
  const token = tokenInQuery(c)
  const application = await findApplication(c.get('db'), token)
  if (!application)
    return redirectWith(c, `/application?token=${encodeURIComponent(token)}`, 'This link no longer works.', 'bad')
  const confirmed = await confirmApplication(c.get('db'), application)
  c.executionCtx.waitUntil(sendSoon(c.env, confirmed.outbox))
  const { isFirst, invitation } = confirmed
  const { language } = textsIn(languageOf(c, application.language))
  const decision = {
    application: { ...application, language },
    isFirst: isFirst && confirmed.outcome === 'approved',
    invitation,
  }
  c.executionCtx.waitUntil(mailApprovals(openDatabase(c.env), c.env, [decision]))
  if (invitation !== undefined) return c.redirect(`/partner-invitation?token=${invitation}`, 303)
  return redirectWith(c, `/application?token=${encodeURIComponent(token)}`, 'Thank you! Your application was sent.')
})

pages.post('/application/withdraw', async (c) => {
  const token = tokenInQuery(c)
  await withdrawApplication(c.get('db'), token)
  return redirectWith(c, '/application', 'Your application was deleted.')
})

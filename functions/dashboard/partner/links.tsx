import * as z from 'zod/mini'
import { ApiError } from '../../../lib/errors.ts'
import { shownHost } from '../../../lib/hosts.ts'
import { languageCodes, languageOptions } from '../../../lib/languages.ts'
import { formatMoney } from '../../../lib/money.ts'
import { addLink, isPageOf, linkAddress } from '../../../lib/programs/links.ts'
import { termsOfPartner } from '../../../lib/programs/commission-rules.ts'
import {
  endPartnership,
  type ProgramOfPartner,
  setPartnerLanguage,
  setPartnerName,
} from '../../../lib/programs/partnerships.ts'
import { nameField } from '../../../lib/names.ts'
import { Card, Copy } from '../components/blocks.tsx'
import { Field, Form, optionsOf, PostButton } from '../components/fields.tsx'
import { redirectWith } from '../components/flash.tsx'
import { form, FormRefusal } from '../components/form.ts'
import { counted } from '../components/format.tsx'
import { PartnerPage } from '../components/layout.tsx'
import { Pager } from '../components/list.tsx'
import { createPages, requirePartner } from '../components/page.ts'
import { useTexts } from '../components/text.tsx'
import { programNamed, readPrograms } from './money.ts'

/** A partner's links in each program. */
export const pages = createPages()

pages.get('/partner/links', requirePartner, async (c) => {
  const page = await readPrograms(c)
  const programs = page.rows
  const open = programs.filter(({ is_active: active }) => active)
  return c.render(
    <PartnerPage
      title="Links"
      current="/links"
      lead="Every visitor who follows one of these links is attributed to you."
    >
      {programs.map((program) => (
        <LinksOf program={program} />
      ))}
      <Pager {...page} />
      {open.length > 0 && <NewLink programs={open} />}
      <OwnName name={c.get('partner').name ?? ''} />
      <OwnLanguage language={c.get('partner').language} />
    </PartnerPage>,
  )
})

function LinksOf({ program }: { program: ProgramOfPartner }) {
  return (
    <Card title={program.name}>
      {termsOfPartner(program, program.rules).map((terms) => (
        <p class="muted small">{terms}.</p>
      ))}
      {program.ended_at && (
        <p class="message warn">
          {program.ended_by === 'partner' ? 'You left this program' : 'This program ended the partnership'}: clicks on
          your links are refused. You keep your earnings.
        </p>
      )}
      {program.links.map(({ code, page_url: pageUrl, ...link }) => (
        <div class="stack tight">
          <Copy text={linkAddress(program.domain, code, pageUrl)} label={`link with the code ${code}`} />
          <p class="muted small">
            {counted(link.clicks, 'click', 'clicks')}, {counted(link.leads, 'lead', 'leads')},{' '}
            {counted(link.sales, 'sale', 'sales')}, {formatMoney(link.commission_cents, program.currency)} earned
            {link.bot_clicks > 0 &&
              `; and ${counted(link.bot_clicks, 'bot click, which does', 'bot clicks, which do')} not count`}
          </p>
        </div>
      ))}
      {program.is_active &&
        program.codes.map(({ code, sales, commission_cents: cents }) => (
          <div class="stack tight">
            <Copy text={code} label={`code ${code}`} />
            <p class="muted small">
              Your code for buyers: {counted(sales, 'sale', 'sales')}, {formatMoney(cents, program.currency)} earned
            </p>
          </div>
        ))}
      {program.links.length === 0 && <p class="muted">No links yet. Create one below.</p>}
      {program.ended_at === null && (
        <PostButton
          action={`/partner/programs/${program.id}/leave`}
          class="compact danger"
          label={`Leave ${program.name}`}
          confirm={`Leave ${program.name}? Your links and codes there stop working. You keep your earnings.`}
          text="Leave"
        />
      )}
    </Card>
  )
}

/** The person's own name. It replaces the names that programs entered. */
function OwnName({ name }: { name: string }) {
  return (
    <Card title="Your name">
      <Form action="/partner/name" submit="Save" layout="inline">
        <Field
          name="name"
          label="How programs see you"
          value={name}
          hint={name === '' ? 'Not set yet. Each program sees the name that it entered for you.' : undefined}
          required
        />
      </Form>
    </Card>
  )
}

/** The person's choice of a language. */
function OwnLanguage({ language }: { language: string | null }) {
  const { t } = useTexts()
  return (
    <Card title={t('Your language')}>
      <Form action="/partner/language" submit={t('Save')} layout="inline">
        <Field
          name="language"
          label={t('Language')}
          value={language ?? ''}
          options={[['', t('Of the program or your browser')], ...languageOptions]}
          hint={t('Applies to these pages and to our e-mails.')}
        />
      </Form>
    </Card>
  )
}

function NewLink({ programs }: { programs: ProgramOfPartner[] }) {
  return (
    <Card title="Create a link">
      <Form action="/partner/links" submit="Create link">
        <Field name="program" label="Program" options={optionsOf(programs)} />
        <Field
          name="page"
          label="Landing page"
          type="url"
          inputmode="url"
          placeholder={`https://${shownHost(programs[0]?.domain ?? '')}/…`}
          hint="A page on the program's site. Leave empty for the home page."
        />
        <Field name="code" label="Code" hint="Letters, digits and . _ @ - only." required />
      </Form>
    </Card>
  )
}

const linkForm = z.object({
  program: z.string(),
  page: z.string().check(z.trim(), z.maxLength(2048)),
  code: z
    .string()
    .check(
      z.trim(),
      z.regex(/^[A-Za-z0-9._@-]{1,64}$/, 'Use only letters, digits and . _ @ -, at most 64 characters.'),
    ),
})

pages.post('/partner/links', requirePartner, form(linkForm, '/partner/links', 'code'), async (c) => {
  const { program: chosen, page, code } = c.req.valid('form')
  const program = await programNamed(c, chosen)
  if (!program?.is_active) throw new ApiError('forbidden', 'Choose one of your programs.')
  if (page !== '' && !isPageOf(page, program.domain))
    throw new FormRefusal({ page: `Enter a page of ${shownHost(program.domain)}.` })
  await addLink(c.get('db'), { programId: program.id, partnerId: program.partner_id, code, pageUrl: page || null })
  return redirectWith(c, '/partner/links', 'The link is ready.')
})

const profileForm = z.object({ name: nameField('Enter your name.') })

pages.post('/partner/name', requirePartner, form(profileForm, '/partner/links'), async (c) => {
  await setPartnerName(c.get('db'), c.get('viewer').user.id, c.req.valid('form').name)
  return redirectWith(c, '/partner/links', 'Your name was saved.')
})

const languageForm = z.object({ language: z.union([z.literal(''), z.enum(languageCodes)]) })

pages.post('/partner/language', requirePartner, form(languageForm, '/partner/links'), async (c) => {
  await setPartnerLanguage(c.get('db'), c.get('viewer').user.id, c.req.valid('form').language || null)
  return redirectWith(c, '/partner/links', 'Your language was saved.')
})

pages.post('/partner/programs/:programId/leave', requirePartner, async (c) => {
  const program = await programNamed(c, c.req.param('programId'))
  if (!program) throw new ApiError('not_found', 'You are not a partner of this program.')
  await endPartnership(c.get('db'), { programId: program.id, userId: c.get('viewer').user.id })
  return redirectWith(c, '/partner/links', `You left ${program.name}. You keep your earnings.`)
})

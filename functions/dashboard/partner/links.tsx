import * as z from 'zod/mini'
import { ApiError } from '../../../lib/errors.ts'
import { shownHost } from '../../../lib/hosts.ts'
import { languageCodes, languageOptions } from '../../../lib/languages.ts'
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
import { PartnerPage } from '../components/layout.tsx'
import { Pager } from '../components/list.tsx'
import { createPages, requirePartner } from '../components/page.ts'
import { useTexts } from '../components/text.tsx'
import { programNamed, readPrograms } from './money.ts'

/** A partner's links in each program. */
export const pages = createPages()

pages.get('/partner/links', requirePartner, async (c) => {
  const page = await readPrograms(c)
  const { t } = c.get('texts')
  const programs = page.rows
  const open = programs.filter(({ is_active: active }) => active)
  return c.render(
    <PartnerPage
      title={t('Links')}
      current="/links"
      lead={t('Every visitor who follows one of these links is attributed to you.')}
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
  const texts = useTexts()
  const { t, money } = texts
  return (
    <Card title={program.name}>
      {termsOfPartner(program, program.rules, texts).map((terms) => (
        <p class="muted small">{terms}.</p>
      ))}
      {program.ended_at && (
        <p class="message warn">
          {program.ended_by === 'partner'
            ? t('You left this program: clicks on your links are refused. You keep your earnings.')
            : t('This program ended the partnership: clicks on your links are refused. You keep your earnings.')}
        </p>
      )}
      {program.links.map(({ code, page_url: pageUrl, ...link }) => (
        <div class="stack tight">
          <Copy text={linkAddress(program.domain, code, pageUrl)} label={t('link with the code {code}', { code })} />
          <p class="muted small">
            {t('{clicks}, {leads}, {sales}, {amount} earned', {
              clicks: t('{count} clicks', { count: link.clicks }),
              leads: t('{count} leads', { count: link.leads }),
              sales: t('{count} sales', { count: link.sales }),
              amount: money(link.commission_cents, program.currency),
            })}
            {link.bot_clicks > 0 && `; ${t('and {count} bot clicks, which do not count', { count: link.bot_clicks })}`}
          </p>
        </div>
      ))}
      {program.is_active &&
        program.codes.map(({ code, sales, commission_cents: cents }) => (
          <div class="stack tight">
            <Copy text={code} label={t('code {code}', { code })} />
            <p class="muted small">
              {t('Your code for buyers: {sales}, {amount} earned', {
                sales: t('{count} sales', { count: sales }),
                amount: money(cents, program.currency),
              })}
            </p>
          </div>
        ))}
      {program.links.length === 0 && <p class="muted">{t('No links yet. Create one below.')}</p>}
      {program.ended_at === null && (
        <PostButton
          action={`/partner/programs/${program.id}/leave`}
          class="compact danger"
          label={t('Leave {name}', { name: program.name })}
          confirm={t('Leave {name}? Your links and codes there stop working. You keep your earnings.', {
            name: program.name,
          })}
          text={t('Leave')}
        />
      )}
    </Card>
  )
}

/** The person's own name. It replaces the names that programs entered. */
function OwnName({ name }: { name: string }) {
  const { t } = useTexts()
  return (
    <Card title={t('Your name')}>
      <Form action="/partner/name" submit={t('Save')} layout="inline">
        <Field
          name="name"
          label={t('How programs see you')}
          value={name}
          hint={name === '' ? t('Not set yet. Each program sees the name that it entered for you.') : undefined}
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
  const { t } = useTexts()
  return (
    <Card title={t('Create a link')}>
      <Form action="/partner/links" submit={t('Create link')}>
        <Field name="program" label={t('Program')} options={optionsOf(programs)} />
        <Field
          name="page"
          label={t('Landing page')}
          type="url"
          inputmode="url"
          placeholder={`https://${shownHost(programs[0]?.domain ?? '')}/…`}
          hint={t("A page on the program's site. Leave empty for the home page.")}
        />
        <Field name="code" label={t('Code')} hint={t('Letters, digits and . _ @ - only.')} required />
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
    throw new FormRefusal({ page: c.get('texts').t('Enter a page of {host}.', { host: shownHost(program.domain) }) })
  await addLink(c.get('db'), { programId: program.id, partnerId: program.partner_id, code, pageUrl: page || null })
  return redirectWith(c, '/partner/links', 'The link is ready.')
})

const profileForm = z.object({ name: nameField('Enter your name.') })

pages.post('/partner/name', requirePartner, form(profileForm, '/partner/links'), async (c) => {
  await setPartnerName(c.get('db'), c.get('viewer').user.id, c.req.valid('form').name)
  return redirectWith(c, '/partner/links', 'Your name was saved.')
})

const languageForm = z.object({ language: z.union([z.literal(''), z.enum(languageCodes)], 'Choose one of these.') })

pages.post('/partner/language', requirePartner, form(languageForm, '/partner/links'), async (c) => {
  await setPartnerLanguage(c.get('db'), c.get('viewer').user.id, c.req.valid('form').language || null)
  return redirectWith(c, '/partner/links', 'Your language was saved.')
})

pages.post('/partner/programs/:programId/leave', requirePartner, async (c) => {
  const program = await programNamed(c, c.req.param('programId'))
  if (!program) throw new ApiError('not_found', 'You are not a partner of this program.')
  await endPartnership(c.get('db'), { programId: program.id, userId: c.get('viewer').user.id })
  return redirectWith(
    c,
    '/partner/links',
    c.get('texts').t('You left {name}. You keep your earnings.', { name: program.name }),
  )
})

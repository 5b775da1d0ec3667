import * as z from 'zod/mini'
import type { Viewer } from '../../../lib/access/viewer.ts'
import { chooseLanguage } from '../../../lib/languages.ts'
import {
  mailFrequencies,
  type MailFrequency,
  type MailTopic,
  readMailChoices,
  readUnsubscription,
  retryAddress,
  saveMailChoices,
  stopPayeeMails,
  topicWords,
} from '../../../lib/notifications/mail-choices.ts'
import { cameFrom, tokenInQuery } from '../components/address.ts'
import { Card } from '../components/blocks.tsx'
import { Field, Form, PostButton } from '../components/fields.tsx'
import { redirectWith } from '../components/flash.tsx'
import { form } from '../components/form.ts'
import { Day } from '../components/format.tsx'
import { AccountPage, PartnerPage, PlainPage } from '../components/layout.tsx'
import {
  createPages,
  type PageContext,
  requirePartner,
  requireViewer,
  showToPartner,
  type ViewerContext,
} from '../components/page.ts'
import { Text, useTexts } from '../components/text.tsx'

/** A person's choice of notification mails and their frequency. */
export const pages = createPages()

const address = '/account/mail'
const partnerAddress = '/partner/mail'
/** Unsubscribes with the token of a mail, without a session. */
export const unsubscribePath = '/mail/unsubscribe'

const frequencyWords: Record<MailFrequency, string> = { at_once: 'At once', daily: 'Once a day', never: 'Never' }

const readers = { partner: 'As a partner', advertiser: 'As a member of a workspace' } as const
type Reader = keyof typeof readers

const refusals = {
  bounced: 'E-mail to your address was returned on {day}, so we no longer send notifications there.',
  complained: 'An e-mail was reported as spam on {day}, so we no longer send notifications to your address.',
  unsubscribed: 'You stopped e-mail to your address on {day}, so we no longer send notifications there.',
} as const

/** The roles in which a person gets mail. A person without a role sees both, because they may get either later. */
function readersOf({ partner, workspaces }: Viewer): Reader[] {
  if (!partner && workspaces.length === 0) return ['partner', 'advertiser']
  return [...(partner ? (['partner'] as const) : []), ...(workspaces.length > 0 ? (['advertiser'] as const) : [])]
}

pages.get(address, requireViewer, async (c) => await showChoices(c, readersOf(c.get('viewer'))))

// Mails to partners link to this page, because it is in their language even if they must sign in first.
pages.get(partnerAddress, requirePartner, async (c) => await showChoices(c, ['partner'], PartnerPage))

async function showChoices(
  c: Pick<ViewerContext, 'get' | 'render'>,
  shown: Reader[],
  Page: typeof AccountPage = AccountPage,
) {
  const viewer = c.get('viewer')
  const { t, fixed } = c.get('texts')
  const { choices, refused } = await readMailChoices(c.get('db'), viewer.user.id)
  return await c.render(
    <Page
      title={t('E-mail')}
      lead={t('Choose the e-mails to {email}. The dashboard shows all notifications.', { email: viewer.user.email })}
    >
      {refused && (
        <section class="message bad row apart" aria-label={t('Your address refused e-mail')}>
          <p>
            <Text of={refusals[refused.reason]} day={<Day at={refused.refused_at} />} />
          </p>
          <PostButton action={`${address}/retry`} text={t('Send me e-mail again')} />
        </section>
      )}
      <Form action={address} submit={t('Save')}>
        {shown.map((reader) => (
          <Card title={fixed(readers[reader])}>
            <div class="fields">
              {choices
                .filter(({ topic }) => topicWords[topic].reader === reader)
                .map(({ topic, frequency }) => (
                  <Choice topic={topic} frequency={frequency} />
                ))}
            </div>
          </Card>
        ))}
      </Form>
      <p class="small muted">
        {t('Daily e-mails go out at 7:00 UTC. You always get e-mails about your sign-in and your payout address.')}
      </p>
      <p>
        <a href="/account">{t('Back to your account')}</a>
      </p>
    </Page>,
  )
}

function Choice({ topic, frequency }: { topic: MailTopic; frequency: MailFrequency }) {
  const { name, hint } = topicWords[topic]
  const { fixed } = useTexts()
  const options = mailFrequencies.map((one) => [one, fixed(frequencyWords[one])] as const)
  return <Field name={topic} label={fixed(name)} hint={fixed(hint)} value={frequency} options={options} />
}

/** The page that sent the form. */
const ownAddress = (c: ViewerContext) => (cameFrom(c) === partnerAddress ? partnerAddress : address)

const frequencyField = z.optional(z.enum(mailFrequencies, 'Choose one of these.'))
const choicesForm = z.object({
  earned: frequencyField,
  reversed: frequencyField,
  paid: frequencyField,
  statement: frequencyField,
  message: frequencyField,
  application: frequencyField,
  payout_due: frequencyField,
  review: frequencyField,
  trouble: frequencyField,
  postback: frequencyField,
} satisfies Record<MailTopic, typeof frequencyField>)

pages.post(address, requireViewer, form(choicesForm, address), async (c) => {
  await saveMailChoices(c.get('db'), c.get('viewer').user.id, c.req.valid('form'))
  return redirectWith(c, ownAddress(c), 'Saved.')
})

pages.post(`${address}/retry`, requireViewer, async (c) => {
  await retryAddress(c.get('db'), c.get('viewer').user.id)
  return redirectWith(c, ownAddress(c), 'You will get notification e-mails again.')
})

// This page doesn't need a session, so people can unsubscribe straight from a mail. Only the button unsubscribes, because mail scanners
// open links.
pages.get(unsubscribePath, async (c) => {
  const stopped = await readStopped(c)
  const { t } = c.get('texts')
  return c.render(
    <PlainPage title={t('Stop these e-mails')}>
      <p>{t('You will no longer get e-mails about this:')}</p>
      <Stopped of={stopped} />
      <PostButton
        action={`${unsubscribePath}?token=${encodeURIComponent(tokenInQuery(c))}`}
        class="primary"
        text={t('Stop these e-mails')}
      />
      {'topics' in stopped && (
        <p class="small muted">
          <Text
            of="The dashboard still shows these notifications. To choose for each kind, <a>sign in</a>."
            a={(text) => <a href={choicesOf(stopped)}>{text}</a>}
          />
        </p>
      )}
    </PlainPage>,
  )
})

const choicesOf = ({ language }: { language?: string | undefined }) =>
  language === undefined ? address : partnerAddress

/** Reads the mails that the link stops. The page is in the language of the mail. */
async function readStopped(c: PageContext) {
  const stopped = await readUnsubscription(c.env, tokenInQuery(c))
  if (stopped.language !== undefined) showToPartner(c, chooseLanguage([stopped.language]))
  return stopped
}

// Mail programs post this with one click (RFC 8058). The token identifies the person and the mails. The token allows nothing else.
pages.post(unsubscribePath, async (c) => {
  const stopped = await readStopped(c)
  if ('email' in stopped) await stopPayeeMails(c.get('db'), stopped.email)
  else {
    const choices = Object.fromEntries(stopped.topics.map((topic) => [topic, 'never']))
    await saveMailChoices(c.get('db'), stopped.userId, choices)
  }
  const { t } = c.get('texts')
  return c.render(
    <PlainPage title={t('The e-mails are stopped')}>
      <p>{t('You no longer get e-mails about this:')}</p>
      <Stopped of={stopped} />
      {'topics' in stopped && (
        <p>
          <a href={choicesOf(stopped)}>{t('Choose your e-mails')}</a>
        </p>
      )}
    </PlainPage>,
  )
})

function Stopped({ of }: { of: Awaited<ReturnType<typeof readUnsubscription>> }) {
  const { t, fixed } = useTexts()
  const names =
    'email' in of
      ? [t('Payouts to {email}', { email: of.email })]
      : of.topics.map((topic) => fixed(topicWords[topic].name))
  return (
    <p>
      <strong>{names.join(', ')}</strong>
    </p>
  )
}

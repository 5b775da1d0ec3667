import * as z from 'zod/mini'
import type { Viewer } from '../../../lib/access/viewer.ts'
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
import { tokenInQuery } from '../components/address.ts'
import { Card } from '../components/blocks.tsx'
import { Field, Form, PostButton } from '../components/fields.tsx'
import { redirectWith } from '../components/flash.tsx'
import { form } from '../components/form.ts'
import { Day } from '../components/format.tsx'
import { AccountPage, PlainPage } from '../components/layout.tsx'
import { createPages, requireViewer } from '../components/page.ts'

/** A person's choice of notification mails and their frequency. */
export const pages = createPages()

const address = '/account/mail'
/** Unsubscribes with the token of a mail, without a session. */
export const unsubscribePath = '/mail/unsubscribe'

const frequencyWords: Record<MailFrequency, string> = { at_once: 'At once', daily: 'Once a day', never: 'Never' }
const options = mailFrequencies.map((frequency) => [frequency, frequencyWords[frequency]] as const)

const readers = { partner: 'As a partner', advertiser: 'As a member of a workspace' } as const

const refusals = {
  bounced: 'E-mail to your address was returned',
  complained: 'An e-mail was reported as spam',
  unsubscribed: 'You stopped e-mail to your address',
} as const

/** The roles in which a person gets mail. A person without a role sees both, because they may get either later. */
function readersOf({ partner, workspaces }: Viewer): (keyof typeof readers)[] {
  if (!partner && workspaces.length === 0) return ['partner', 'advertiser']
  return [...(partner ? (['partner'] as const) : []), ...(workspaces.length > 0 ? (['advertiser'] as const) : [])]
}

pages.get(address, requireViewer, async (c) => {
  const viewer = c.get('viewer')
  const { choices, refused } = await readMailChoices(c.get('db'), viewer.user.id)
  return c.render(
    <AccountPage
      title="E-mail"
      lead={`Choose the e-mails to ${viewer.user.email}. The dashboard shows all notifications.`}
    >
      {refused && (
        <section class="message bad row apart" aria-label="Your address refused e-mail">
          <p>
            {refusals[refused.reason]} on <Day at={refused.refused_at} />, so we no longer send notifications there.
          </p>
          <PostButton action={`${address}/retry`} text="Send me e-mail again" />
        </section>
      )}
      <Form action={address} submit="Save">
        {readersOf(viewer).map((reader) => (
          <Card title={readers[reader]}>
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
        Daily e-mails go out at 7:00 UTC. You always get e-mails about your sign-in and your payout address.
      </p>
      <p>
        <a href="/account">Back to your account</a>
      </p>
    </AccountPage>,
  )
})

function Choice({ topic, frequency }: { topic: MailTopic; frequency: MailFrequency }) {
  const { name, hint } = topicWords[topic]
  return <Field name={topic} label={name} hint={hint} value={frequency} options={options} />
}

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
  return redirectWith(c, address, 'Saved.')
})

pages.post(`${address}/retry`, requireViewer, async (c) => {
  await retryAddress(c.get('db'), c.get('viewer').user.id)
  return redirectWith(c, address, 'You will get notification e-mails again.')
})

// This page doesn't need a session, so people can unsubscribe straight from a mail. Only the button unsubscribes, because mail scanners
// open links.
pages.get(unsubscribePath, async (c) => {
  const token = tokenInQuery(c)
  const stopped = await readUnsubscription(c.env, token)
  return c.render(
    <PlainPage title="Stop these e-mails">
      <p>You will no longer get e-mails about this:</p>
      <Stopped of={stopped} />
      <PostButton
        action={`${unsubscribePath}?token=${encodeURIComponent(token)}`}
        class="primary"
        text="Stop these e-mails"
      />
      {'topics' in stopped && (
        <p class="small muted">
          The dashboard still shows these notifications. To choose for each kind, <a href={address}>sign in</a>.
        </p>
      )}
    </PlainPage>,
  )
})

// Mail programs post this with one click (RFC 8058). The token identifies the person and the mails. The token allows nothing else.
pages.post(unsubscribePath, async (c) => {
  const stopped = await readUnsubscription(c.env, tokenInQuery(c))
  if ('email' in stopped) await stopPayeeMails(c.get('db'), stopped.email)
  else {
    const choices = Object.fromEntries(stopped.topics.map((topic) => [topic, 'never']))
    await saveMailChoices(c.get('db'), stopped.userId, choices)
  }
  return c.render(
    <PlainPage title="The e-mails are stopped">
      <p>You no longer get e-mails about this:</p>
      <Stopped of={stopped} />
      {'topics' in stopped && (
        <p>
          <a href={address}>Choose your e-mails</a>
        </p>
      )}
    </PlainPage>,
  )
})

function Stopped({ of }: { of: Awaited<ReturnType<typeof readUnsubscription>> }) {
  const names = 'email' in of ? [`Payouts to ${of.email}`] : of.topics.map((topic) => topicWords[topic].name)
  return (
    <p>
      <strong>{names.join(', ')}</strong>
    </p>
  )
}

import { Hono } from 'hono/tiny'
import { secureHeaders } from 'hono/secure-headers'
import { sql } from 'kysely'
import { Card, Empty, Heading } from '../../functions/dashboard/components/blocks.tsx'
import { positiveInteger } from '../../functions/dashboard/components/address.ts'
import { Time } from '../../functions/dashboard/components/format.tsx'
import { PlainPage, renderPage } from '../../functions/dashboard/components/layout.tsx'
import { Table } from '../../functions/dashboard/components/table.tsx'
import { type DatabaseEnv, openDatabase } from '../database.ts'
import { ApiError, errorResponse } from '../errors.ts'
import { kysely } from '../kysely.ts'

/** The path on the local stack. See inbox.ts. */
const inboxPath = '/inbox'

const mails = () => kysely.selectFrom('mails').select(['id', 'recipient', 'subject', 'created_at'])

/** Shows the mails of the local stack, newest first, as text and as HTML in a frame without scripts. It is never deployed. */
const app = new Hono<{ Bindings: DatabaseEnv }>()

app.use(
  secureHeaders({
    contentSecurityPolicy: {
      defaultSrc: ["'none'"],
      styleSrc: ["'self'", "'unsafe-inline'"],
      scriptSrc: ["'self'"],
      frameSrc: ["'self'"],
      imgSrc: ["'self'"],
    },
  }),
)

app.get(inboxPath, async (c) => {
  const rows = await openDatabase(c.env).query(mails().orderBy('id', 'desc').limit(100))
  return renderPage(
    c,
    <PlainPage title="Inbox" heading={null}>
      <Heading
        title="Inbox"
        lead="The last 100 e-mails of this machine, to all recipients. They are kept for a week."
      />
      <Card>
        {rows.length === 0 ? (
          <Empty title="No e-mail yet">
            <p>Sign up, invite somebody, or record a refund, and the e-mail appears here.</p>
          </Empty>
        ) : (
          <Table
            caption="E-mails, newest first"
            rows={rows}
            columns={[
              { label: 'Sent (UTC)', cell: ({ created_at: at }) => <Time at={at} /> },
              { label: 'To', cell: ({ recipient }) => <span class="break">{recipient}</span> },
              { label: 'Subject', cell: ({ id, subject }) => <a href={`${inboxPath}/${id}`}>{subject}</a> },
            ]}
          />
        )}
      </Card>
    </PlainPage>,
  )
})

app.get(`${inboxPath}/:id`, async (c) => {
  const [mail] = await openDatabase(c.env).query(
    mails()
      .select(['body', 'html'])
      .where('id', '=', positiveInteger(c.req.param('id')) ?? sql.lit(0)),
  )
  if (!mail) return errorResponse(new ApiError('not_found', `There is no such e-mail. See ${inboxPath} for all.`))
  return renderPage(
    c,
    <PlainPage title={mail.subject} heading={null}>
      <Heading title={mail.subject} lead={`To ${mail.recipient}`} />
      {mail.html !== null && (
        <Card title="HTML">
          {/* Links open outside of the frame, because the policy of this page doesn't apply there. */}
          <iframe
            title="The e-mail"
            sandbox="allow-popups allow-popups-to-escape-sandbox"
            srcdoc={mail.html.replace('<head>', '<head><base target="_blank">')}
            style="width:100%;height:34rem;border:0"
          />
        </Card>
      )}
      <Card title="Text">
        <pre style="white-space:pre-wrap;overflow-wrap:anywhere">{linked(mail.body)}</pre>
      </Card>
      <p>
        <a href={inboxPath}>All e-mails</a>
      </p>
    </PlainPage>,
  )
})

/** Renders a text, with addresses as links. */
function linked(text: string) {
  return text.split(/(https?:\/\/\S+)/).map((part) => (/^https?:/.test(part) ? <a href={part}>{part}</a> : part))
}

export default app

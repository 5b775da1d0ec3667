import type { Context } from 'hono'
import { createApiKey } from '../../../lib/access/program-keys.ts'
import { may } from '../../../lib/access/roles.ts'
import type { Database } from '../../../lib/database.ts'
import type { Viewer, ViewerProgram } from '../../../lib/access/viewer.ts'
import { readIntegration } from '../../../lib/tracking/status.ts'
import { Card, Copy, Heading } from '../parts/blocks.tsx'
import { PostButton } from '../parts/fields.tsx'
import { renderProgramOf } from '../parts/layout.tsx'
import { createPages, type ProgramContext, requireProgram } from '../parts/page.ts'
import { Check } from './check.tsx'

/** What an advertiser does first with a program. */
export const firstStepsPages = createPages()

export const firstStepsOf = (programId: number) => `/programs/${programId}/first-steps`

firstStepsPages.get('/programs/:programId/first-steps', requireProgram('performance:read'), (c) =>
  renderFirstSteps(c, seenBy(c)),
)

firstStepsPages.post('/programs/:programId/first-steps/key', requireProgram('api-key:manage'), async (c) => {
  const { db, viewer, program } = seenBy(c)
  const key = await createApiKey(db, program.id, 'server', { createdBy: viewer.user.id })
  return await renderFirstSteps(c, seenBy(c), key)
})

interface Seen {
  db: Database
  baseUrl: string
  viewer: Viewer
  program: ViewerProgram
}

const seenBy = ({ env, get }: Pick<ProgramContext, 'env' | 'get'>): Seen => ({
  db: get('db'),
  baseUrl: env.BASE_URL,
  viewer: get('viewer'),
  program: get('program'),
})

/**
 * From an empty program to its first sale. `madeKey` is a key that was just made: nobody can be shown it again, so the page is the answer to the form,
 * and who sends that again is led to the page without it.
 */
export async function renderFirstSteps(c: Context, { db, baseUrl, viewer, program }: Seen, madeKey?: string) {
  const integration = await readIntegration(db, program.id)
  c.header('Content-Location', firstStepsOf(program.id))
  return renderProgramOf(c, viewer, program, {
    title: 'First steps',
    current: '',
    children: (
      <>
        <Heading
          title={madeKey ? `${program.name} is ready` : `First steps with ${program.name}`}
          lead="Three steps to the first sale. Figures stand here once a partner's first click has come."
        />
        <Card title="1. Set up your project">
          {madeKey ? (
            <SetUp baseUrl={baseUrl} apiKey={madeKey} page={firstStepsOf(program.id)} />
          ) : (
            <>
              <p class="muted">
                The command has an API key in it, so it was shown once. A new key takes nothing from the others.
              </p>
              {may(program.roles, 'api-key:manage') && (
                <PostButton action={`${firstStepsOf(program.id)}/key`} class="primary">
                  Show it with a new key
                </PostButton>
              )}
            </>
          )}
          <p>
            Then follow <code>.svc/AGENTS.md</code>, or hand it to your coding agent. By hand:{' '}
            <a href="/docs/html">HTML and any server</a>, <a href="/docs/nextjs">Next.js</a>,{' '}
            <a href="/docs/react">React</a>, or the <a href="/api/v1/reference">API reference</a>.
          </p>
          <p class="muted">
            Sales come from your server, or from Stripe once it is connected in the{' '}
            <a href={`/programs/${program.id}/settings`}>settings</a>, where the tag alone is too.
          </p>
        </Card>
        <Check program={program} integration={integration} title="2. Try it by the test link" />
        <Card title="3. Add a partner">
          <p class="muted">Each partner has a link of their own. What comes by it counts.</p>
          {may(program.roles, 'partner:manage') && (
            <div class="row">
              <a class="button" href={`/programs/${program.id}/partners`}>
                Add the first partner
              </a>
            </div>
          )}
        </Card>
      </>
    ),
  })
}

/** The command that sets a project up, with the program's key in it. `page` is what its reader finds again. */
export function SetUp({ baseUrl, apiKey, page }: { baseUrl: string; apiKey: string; page: string }) {
  return (
    <div class="message good stack tight" role="status" data-address={page}>
      <p>
        <strong>Run this in your project's folder now: the key in it is not shown again.</strong> It takes Node 20 or
        newer.
      </p>
      <Copy
        text={`npm install ${baseUrl}/svc-tracker.tgz && npx svc init --base-url ${baseUrl} --api-key ${apiKey}`}
        label="set-up command"
      />
      <p>The key alone, for a server without Node:</p>
      <Copy text={apiKey} label="API key" />
    </div>
  )
}

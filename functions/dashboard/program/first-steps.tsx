import { may } from '../../../lib/access/roles.ts'
import type { ViewerProgram } from '../../../lib/access/viewer.ts'
import { type ProgramProgress, readProgress } from '../../../lib/programs/programs.ts'
import { Card, Copy } from '../parts/blocks.tsx'
import { renderProgram } from '../parts/layout.tsx'
import { createPages, requireProgram } from '../parts/page.ts'
import { trackerTag } from './tracker-tag.tsx'

/** What an advertiser does first with a program. */
export const firstStepsPages = createPages()

firstStepsPages.get('/programs/:programId/first-steps', requireProgram('performance:read'), async (c) => {
  const progress = await readProgress(c.get('db'), c.get('program').id)
  return renderProgram(c, {
    title: 'First steps',
    current: '',
    children: <FirstSteps baseUrl={c.env.BASE_URL} program={c.get('program')} progress={progress} />,
  })
})

interface FirstStepsProps {
  baseUrl: string
  program: ViewerProgram
  progress: ProgramProgress
}

/** From an empty program to its first click; it keeps itself fresh until that has come. */
export function FirstSteps({ baseUrl, program, progress }: FirstStepsProps) {
  const base = `/programs/${program.id}`
  const { partners, last_click: click } = progress
  return (
    <div data-part data-poll={click ? undefined : `${base}/first-steps`} aria-live="polite">
      <Card title={click ? 'Your first click is here' : 'First steps'}>
        <ol class="steps">
          <li class="done">
            <h3>Make a program</h3>
          </li>
          <li class={click ? 'done' : 'now'}>
            <div class="stack tight">
              <h3>Put the tag on your site</h3>
              {!click && (
                <>
                  <p class="muted">Into the head of every page of {program.domain}.</p>
                  <Copy text={trackerTag(baseUrl, program.id)} label="tracker tag" />
                </>
              )}
            </div>
          </li>
          <li class={partners ? 'done' : 'now'}>
            <div class="stack tight">
              <h3>Add a partner</h3>
              {!partners && may(program.roles, 'partner:manage') && (
                <div class="row">
                  <a class="button primary" href={`${base}/partners`}>
                    Add the first partner
                  </a>
                </div>
              )}
            </div>
          </li>
          <li class={click ? 'done' : partners ? 'now' : ''}>
            <div class="stack tight">
              <h3>See the first click arrive</h3>
              {click ? (
                <p>
                  It came {click.page_url && may(program.roles, 'tracking:list') ? `on ${click.page_url}` : 'just now'}.
                  Next, have your server send signups and sales: make an API key in the{' '}
                  <a href={`${base}/settings`}>settings</a>, or connect Stripe there. The{' '}
                  <a href="/docs">documentation</a> has the code. <a href={base}>Show the figures</a>
                </p>
              ) : partners ? (
                <p class="waiting">Waiting. Open your site through the partner's link: this changes by itself.</p>
              ) : (
                <p class="muted">Needs a partner and their link.</p>
              )}
            </div>
          </li>
        </ol>
      </Card>
    </div>
  )
}

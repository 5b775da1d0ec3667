import { stub } from '../../../tracker/dist/served/script.js'
import { may } from '../../../lib/access/roles.ts'
import { isPageOf } from '../../../lib/programs/links.ts'
import { readProgress } from '../../../lib/programs/programs.ts'
import { Badge, Card, Copy } from '../parts/blocks.tsx'
import { Time } from '../parts/format.tsx'
import { renderProgram } from '../parts/layout.tsx'
import { createPages, requireProgram } from '../parts/page.ts'

/** The tracker tag, and whether it works. */
export const trackerTagPages = createPages()

/**
 * The tag that goes on every page of the integrator's site. Its first line keeps calls of `svc` that are made before the script has
 * loaded, and lets a form work where the script is blocked.
 */
export function trackerTag(baseUrl: string, programId: number): string {
  return `${stub}\n<script async src="${baseUrl}/js/svc-tracker.js" data-svc-program-id="${programId}"></script>`
}

const checkAddress = (programId: number) => `/programs/${programId}/settings/tag`

/** Where the check stands before its first answer; the script asks for the rest. */
export function TrackerTag({ baseUrl, program }: { baseUrl: string; program: { id: number; domain: string } }) {
  const address = checkAddress(program.id)
  return (
    <Card title="Tracker tag">
      <p class="muted">Put this into the head of every page of {program.domain}.</p>
      <Copy text={trackerTag(baseUrl, program.id)} label="tracker tag" />
      <div data-part data-poll={address} aria-live="polite">
        <p class="muted">
          <a href={address}>Check that it works</a>
        </p>
      </div>
    </Card>
  )
}

trackerTagPages.get('/programs/:programId/settings/tag', requireProgram('program:read'), async (c) => {
  const program = c.get('program')
  const { last_click: click } = await readProgress(c.get('db'), program.id)
  return renderProgram(c, {
    title: 'Tracker tag',
    current: '/settings',
    children: (
      <div data-part data-poll={click ? undefined : checkAddress(program.id)} aria-live="polite">
        {click ? (
          <p>
            {click.page_url === null || isPageOf(click.page_url, program.domain) ? (
              <Badge tone="good">Works</Badge>
            ) : (
              <Badge tone="warn">Not on {program.domain}</Badge>
            )}{' '}
            Last click <Time at={click.at} /> UTC
            {click.page_url && may(program.roles, 'tracking:list') && (
              <>
                {' '}
                on <code>{click.page_url}</code>
              </>
            )}
          </p>
        ) : (
          <p class="waiting">
            Waiting for the first click. Open your site through a partner's link: this changes by itself.
          </p>
        )}
      </div>
    ),
  })
})

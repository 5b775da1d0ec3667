import { shownHost } from '../../../lib/hosts.ts'
import { stub } from '../../../tracker/dist/served/script.js'
import { Card, Copy } from '../components/blocks.tsx'

/**
 * The tag for every page of the integrator's site. Its first line queues early calls of `svc`, and lets forms work if a browser blocks the
 * script.
 */
function trackerTag(baseUrl: string, programId: number): string {
  return `${stub}\n<script async src="${baseUrl}/js/svc-tracker.js" data-svc-program-id="${programId}"></script>`
}

export function TrackerTag({ baseUrl, program }: { baseUrl: string; program: { id: number; domain: string } }) {
  return (
    <Card title="Tracker tag" aside={<a href={`/programs/${program.id}/check`}>Check that it works</a>}>
      <p class="muted">Put this into the head of every page of {shownHost(program.domain)}.</p>
      <Copy text={trackerTag(baseUrl, program.id)} label="tracker tag" />
    </Card>
  )
}

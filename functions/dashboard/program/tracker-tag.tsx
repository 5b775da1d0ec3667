import { shownHost } from '../../../lib/hosts.ts'
import { stub } from '../../../tracker/dist/served/script.js'
import { Card, Copy } from '../components/blocks.tsx'

/**
 * The tag for every page of the integrator's site. Its first line queues early calls to `svc`. It also keeps forms working if a browser
 * blocks the script.
 */
function trackerTag(src: string, { id, link_params: params }: TrackerTagProps['program']): string {
  const oldParams = params.length === 0 ? '' : ` data-svc-params="${params.join(',')}"`
  return `${stub}\n<script async src="${src}" data-svc-program-id="${id}"${oldParams}></script>`
}

interface TrackerTagProps {
  baseUrl: string
  /** `link_params` are the parameters of links from an earlier service. */
  program: { id: number; domain: string; link_params: string[] }
  /** The path on the program's own domain. */
  path: string
}

export function TrackerTag({ baseUrl, program, path }: TrackerTagProps) {
  return (
    <Card title="Tracker tag" aside={<a href={`/programs/${program.id}/check`}>Check that it works</a>}>
      <p class="muted">
        Put this into the head of every page of {shownHost(program.domain)}, and serve this path from{' '}
        <a href="/docs/own-domain">your own domain</a>. Ad blockers don't block it there, and browsers keep its cookie
        for its full duration.
      </p>
      <Copy text={trackerTag(`/${path}`, program)} label="tag for your own domain" />
      <p class="muted">
        If you don't have a server, use this instead. Block lists such as EasyPrivacy include its address, so some
        visitors are not counted, and Safari only keeps its cookie for seven days.
      </p>
      <Copy text={trackerTag(`${baseUrl}/js/svc-tracker.js`, program)} label="tracker tag" />
    </Card>
  )
}

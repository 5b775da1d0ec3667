import * as z from 'zod/mini'
import type { Operator } from './config.ts'
import { openCloudflare, readZone, scripts } from './edge.ts'

/** The uploaded and deployed versions of a Worker. */
export interface WorkerVersions {
  worker: string
  /** The current shares of requests, in percent. */
  deployed: { id: string; percentage: number }[]
  /** The uploaded versions, newest first. `tag` is the id of `currentVersion`. */
  versions: { id: string; number: number; tag: string | undefined; createdOn: string }[]
  /** The ids of all versions that were ever deployed. */
  everDeployed: ReadonlySet<string>
}

/** A change of the shares of a Worker's versions. `line` describes it. */
export interface Shift {
  worker: string
  line: string
  shares: { id: string; percentage: number }[]
}

const deploymentsAnswer = z.object({
  deployments: z.array(z.object({ versions: z.array(z.object({ version_id: z.string(), percentage: z.number() })) })),
})
const versionsAnswer = z.object({
  items: z.array(
    z.object({
      id: z.string(),
      number: z.number(),
      metadata: z.object({ created_on: z.string() }),
      annotations: z.optional(z.object({ 'workers/tag': z.optional(z.string()) })),
    }),
  ),
})

/** Reads and changes the versions that run. */
export interface Rollout {
  /** Reads the versions of the existing Workers. */
  read(): Promise<WorkerVersions[]>
  apply(shift: Shift): Promise<void>
}

export async function openRollout(
  token: string,
  { domain, given }: Pick<Operator, 'domain' | 'given'>,
  workers: string[],
): Promise<Rollout> {
  const ask = openCloudflare(token, given)
  const { account } = await readZone(ask, domain, given)
  const existing = new Set((await ask(account, scripts)).map(({ id }) => id))

  async function readOne(worker: string): Promise<WorkerVersions> {
    const [{ deployments }, { items }] = await Promise.all([
      ask(`${account}/${worker}/deployments`, deploymentsAnswer),
      ask(`${account}/${worker}/versions?deployable=true`, versionsAnswer),
    ])
    const [latest] = deployments
    return {
      worker,
      deployed: latest?.versions.map(({ version_id: id, percentage }) => ({ id, percentage })) ?? [],
      versions: items
        .map(({ id, number, metadata, annotations }) => ({
          id,
          number,
          tag: annotations?.['workers/tag'],
          createdOn: metadata.created_on,
        }))
        .toSorted((a, b) => b.number - a.number),
      everDeployed: new Set(deployments.flatMap(({ versions }) => versions.map(({ version_id: id }) => id))),
    }
  }

  return {
    read: async () => await Promise.all(workers.filter((worker) => existing.has(worker)).map(readOne)),
    async apply({ worker, shares }) {
      const versions = shares.map(({ id, percentage }) => ({ version_id: id, percentage }))
      await ask(`${account}/${worker}/deployments`, z.unknown(), { strategy: 'percentage', versions })
    },
  }
}

function shiftOf({ worker, deployed, versions }: WorkerVersions, shares: Shift['shares']): Shift {
  const sides = [deployed, shares].map((side) =>
    side
      .map(({ id, percentage }) => `${versions.find((version) => version.id === id)?.tag ?? id} ${percentage}%`)
      .join(', '),
  )
  return { worker, shares, line: `~ ${worker}  ${sides.join(' -> ')}` }
}

/**
 * Pages of a new version refer to its package, and earlier installs must keep working. So the function that serves the packages of all
 * versions changes first and completely, and a rollback of all functions doesn't include it.
 */
const servesPackages = (worker: string) => worker.endsWith('-tracker-package')

/** Returns the shift of each Worker to a version, in the order of the shifts. */
export function shiftsTo(states: WorkerVersions[], tag: string, percent: number): Shift[] {
  const packages = states.filter(({ worker }) => servesPackages(worker))
  const others = states.filter(({ worker }) => !servesPackages(worker))
  return [...packages, ...others].map((state) => shiftTo(state, tag, percent))
}

/**
 * Returns the shift that gives this share of requests to a version, and the rest to the version that currently gets most of the other
 * requests.
 */
export function shiftTo(state: WorkerVersions, tag: string, percent: number): Shift {
  // A plan shows the version before its upload.
  const id = state.versions.find((uploaded) => uploaded.tag === tag)?.id ?? tag
  const [other] = state.deployed.filter((one) => one.id !== id).toSorted((a, b) => b.percentage - a.percentage)
  const isGradual = other && percent < 100 && !servesPackages(state.worker)
  const rest = isGradual ? [{ id: other.id, percentage: 100 - percent }] : []
  return shiftOf(state, [{ id, percentage: isGradual ? percent : 100 }, ...rest])
}

/**
 * Returns the shifts that undo the latest version in all Workers that run it, each back to the version that it ran before. A repeated
 * rollback goes back one more version, never forward. The packages stay, unless only their function is rolled back.
 */
export function rollback(states: WorkerVersions[]): Shift[] {
  const affected = states.length === 1 ? states : states.filter(({ worker }) => !servesPackages(worker))
  const newest = affected.flatMap((state) => {
    const version = state.versions.find(({ id }) => state.deployed.some((deployed) => deployed.id === id))
    return version ? [{ state, version }] : []
  })
  const [latest] = newest.toSorted((a, b) => b.version.createdOn.localeCompare(a.version.createdOn))
  return newest
    .filter(({ version }) => version.tag === latest?.version.tag)
    .flatMap(({ state, version }) => {
      const before = state.versions.find(({ id, number }) => number < version.number && state.everDeployed.has(id))
      return before ? [shiftOf(state, [{ id: before.id, percentage: 100 }])] : []
    })
}
